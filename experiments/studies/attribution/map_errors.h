// SPDX-License-Identifier: Apache-2.0
// The effect of noise in attention logits on a softmax map and on the difference of two, row by row. With n keys,
// logits s and s + e, maps P and P^, S2 = sum P^2, S3 = sum P^3:
//
//   shift     softmax is unaffected by a constant, so only e - mean matters, with variance v = sum (e - mean)^2 /
//             (n - 1)
//   exp bias  mean over keys of exp(e - mean) - 1, never negative, v / 2 to first order: how much more a key with noise
//             weighs than one without
//   peak      <P^ - P, P> / <P, P>: how much of itself a map gains. P^_j = P_j exp(d_j) / sum P exp(d), d = e - sum P
//             e; to second order, for noise that is independent from key to key,
//               E[P^_j - P_j] = v P_j (S2 - P_j)    large entries lose and small ones gain: noise flattens
//             so the peak is v (S2^2 - S3) / S2, and for a difference D = P1 - lambda P2
//               sum_j D_j (v1 P1_j (S2_1 - P1_j) - lambda v2 P2_j (S2_2 - P2_j)) / <D, D>
//   common    for the errors E1 and E2 of two maps, 2 lambda <E1, E2> / (|E1|^2 + lambda^2 |E2|^2): the share of their
//             energy that the subtraction removes (1: all; 0: they are unlike; negative: it adds). For noise with
//             covariance c between the two logits of a key, E<E1, E2> = c (S11 - S21 - S12 + S11^2), S_ab = sum P1^a
//             P2^b
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/model/plan_run.h"
#include "experiments/observe/captured/captured_statistics.h"
#include "experiments/passes/sequences.h"
#include "experiments/significance/inference.h"
#include "quant/file/json.h"

namespace tare {

struct MapRow {
  std::span<const float> logits, noisy_logits, map, noisy_map;  // [keys]
};

// Sums over rows.
struct MapSums {
  double keys = 0, logit_squares = 0, shiftless_squares = 0;  // of e, and of e minus its mean
  double rows = 0, exp_bias = 0, half_variance = 0;
  double map_squares = 0, error_squares = 0;  // |P|^2, |P^ - P|^2
  double peak = 0, peak_formula = 0;          // <P^ - P, P>
};
struct DifferenceSums {
  double first_squares = 0, second_squares = 0, common = 0;  // |E1|^2, lambda^2 |E2|^2, lambda <E1, E2>
  double map_squares = 0, error_squares = 0;                 // |D|^2, |E1 - lambda E2|^2
  double peak = 0, peak_formula = 0;
};
// A head with one map uses only the first.
struct MapErrors {
  std::array<MapSums, 2> maps;
  DifferenceSums difference;

  void Add(const MapRow& first);
  void Add(const MapRow& first, const MapRow& second, double lambda);
  MapErrors& operator+=(const MapErrors& other);
};

using LayerMapErrors = std::vector<std::vector<MapErrors>>;  // [layers][sequences], each over all heads and rows

// An output head's maps P, difference D = P1 - lambda P2, and a plan's error in P or D, in the first sequence, query by
// key, in at most 128 x 128 cells: each the entry of largest magnitude, with its sign, so that no line is lost.
struct HeadPicture {
  int layer = 0, head = 0;
  // {"layer", "head", "tokens": N, "cell": tokens of a side, "lambda": its mean over queries or null, "maps": [[[0.5,
  // ..], ..], ..] by query and key, null where no query sees a key, "difference": cells or null, "error": cells}
  Json json = {};
};

// Errors of each layer's maps under a plan, on the exact model's input, so that they do not add up. Two models run side
// by side; a layer's maps of a batch are held twice: 2 (3 T^2 / 2 to 5 T^2 / 2) floats a head, T tokens. Draws `heads`.
//
// Maps are subtracted with the exact lambda, so a plan's rules for lambda, difference and later sites have no effect
// on the errors, but on pictures. Throws Error for an executed plan, which shows no maps, and for other heads.
LayerMapErrors MeasureMapErrors(Model& exact, Model& planned, PlanRun& run,
                                const std::vector<ScoredSequence>& sequences, const Progress& progress,
                                std::span<HeadPicture> heads = {});

// As above, of captured q, k, v; one sequence's maps are held twice. Throws Error if simulation or CapturedLayer does.
LayerMapErrors MeasureMapErrors(const CapturedInput& input, const Plan& plan, const Progress& progress,
                                std::span<HeadPicture> heads = {});

// Errors of maps as a table of at most 80 columns and for programs. A layer with two maps has three rows:
//
//   k=int4/token
//     layer          logits  no shift  exp bias  var / 2     map     peak  formula
//     3  map 1       0.2322    0.2318    0.0268   0.0265  0.1439  -0.0078  -0.0062
//        map 2       0.1548    0.1545    0.0125   0.0129  0.0604  -0.0057  -0.0016
//        difference, in common +0.002 [+0.000, +0.003]    0.1269  -0.0073  -0.0050
//
// logits, no shift: RMS of the logits' error, and less its row's mean; map: |P^ - P| / |P|; others are defined above.

// The share of two maps' errors common to both, with the overall correlation and an interval over sequences.
struct CommonShare {
  double value = 0, correlation = 0;
  std::optional<Interval> interval;
};
CommonShare CommonOf(const std::vector<MapErrors>& sequences);

// {"plan", "layers": [{"layer", "maps": [{"logit_rms", "shiftless_rms", "exp_bias", "half_variance", "error", "peak",
// "peak_formula"}], "difference": null or {"error", "common", "low", "high", "correlation", "peak", "peak_formula"}}]}
Json MapErrorJson(const std::string& plan, const LayerMapErrors& layers);

std::string MapErrorTable(const Json& plan);  // for one such object
// For an array of them: one row per layer and map, and one with map "difference"; missing figures are empty.
std::string MapErrorCsv(const Json& plans);

}  // namespace tare
