// SPDX-License-Identifier: Apache-2.0
// Errors of maps as a table of at most 80 columns and for programs. A layer with two maps has three rows:
//
//   k=int4/token
//     layer          logits  no shift  exp bias  var / 2     map     peak  formula
//     3  map 1       0.2322    0.2318    0.0268   0.0265  0.1439  -0.0078  -0.0062
//        map 2       0.1548    0.1545    0.0125   0.0129  0.0604  -0.0057  -0.0016
//        difference, in common +0.002 [+0.000, +0.003]    0.1269  -0.0073  -0.0050
//
// logits, no shift: RMS of the logits' error, and of the same minus its mean in each row; map: |P^ - P| / |P|; the
// others are defined in map_errors.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/significance/mean_error.h"
#include "experiments/studies/attribution/map_errors.h"
#include "quant/file/json_value.h"

namespace tare {

// layers: [layers][sequences].
using LayerMapErrors = std::vector<std::vector<MapErrors>>;

// The share of two maps' errors that is common to both, with the correlation over everything and an interval over
// sequences.
struct CommonShare {
  double value = 0, correlation = 0;
  std::optional<Interval> interval;
};
CommonShare CommonOf(const std::vector<MapErrors>& sequences);

// {"plan", "layers": [{"layer", "maps": [{"logit_rms", "shiftless_rms", "exp_bias", "half_variance", "error", "peak",
// "peak_formula"}], "difference": null or {"error", "common", "low", "high", "correlation", "peak", "peak_formula"}}]}
Json MapErrorJson(const std::string& plan, const LayerMapErrors& layers);

// For one such object.
std::string MapErrorTable(const Json& plan);
// For an array of them: one row per layer and map, and one with map "difference"; missing figures are empty.
std::string MapErrorCsv(const Json& plans);

}  // namespace tare
