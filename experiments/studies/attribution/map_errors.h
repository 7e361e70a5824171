// SPDX-License-Identifier: Apache-2.0
// The effect of noise in attention logits on a softmax map and on the difference of two, row by row. With n keys,
// logits s and s + e, maps P and P^, S2 = sum P^2, S3 = sum P^3:
//
//   shift     softmax is unaffected by a constant: what counts is e - mean, of variance v = sum (e - mean)^2 /
//             (n - 1)
//   exp bias  mean over keys of exp(e - mean) - 1, which is never negative: v / 2 to first order. A key with noise
//             weighs so much more than one without
//   peak      <P^ - P, P> / <P, P>, how much of itself a map gains. P^_j = P_j exp(d_j) / sum P exp(d), d = e - sum P
//             e; to second order, of noise that is independent from key to key,
//               E[P^_j - P_j] = v P_j (S2 - P_j)    large entries lose and small ones gain: noise flattens
//             so that the peak is v (S2^2 - S3) / S2, and of a difference D = P1 - lambda P2
//               sum_j D_j (v1 P1_j (S2_1 - P1_j) - lambda v2 P2_j (S2_2 - P2_j)) / <D, D>
//   common    of the errors E1 and E2 of two maps 2 lambda <E1, E2> / (|E1|^2 + lambda^2 |E2|^2): the share of their
//             energy that the subtraction takes away (1: all, 0: they are unlike, negative: it adds). Of noise of
//             covariance c between the two logits of a key, E<E1, E2> = c (S11 - S21 - S12 + S11^2), S_ab = sum P1^a
//             P2^b
#pragma once

#include <array>
#include <span>

namespace tare {

struct MapRow {
  std::span<const float> logits, noisy_logits, map, noisy_map;  // [keys]
};

// Sums over rows.
struct MapSums {
  double keys = 0, logit_squares = 0, shiftless_squares = 0;  // of e, and of e less its mean
  double rows = 0, exp_bias = 0, half_variance = 0;
  double map_squares = 0, error_squares = 0;  // |P|^2, |P^ - P|^2
  double peak = 0, peak_formula = 0;          // <P^ - P, P>
};
struct DifferenceSums {
  double first_squares = 0, second_squares = 0, common = 0;  // |E1|^2, lambda^2 |E2|^2, lambda <E1, E2>
  double map_squares = 0, error_squares = 0;                 // |D|^2, |E1 - lambda E2|^2
  double peak = 0, peak_formula = 0;
};
// Of a head of one map the first alone.
struct MapErrors {
  std::array<MapSums, 2> maps;
  DifferenceSums difference;

  void Add(const MapRow& first);
  void Add(const MapRow& first, const MapRow& second, double lambda);
  MapErrors& operator+=(const MapErrors& other);
};

}  // namespace tare
