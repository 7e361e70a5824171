// SPDX-License-Identifier: Apache-2.0
// What a plan and each of its sites cost in attention's output, of q, k and v that another program captured, told as
// `tare attribute` tells it of a model. The plans are simulated on each layer by itself (layer_attention.h). The figure
// of a layer, with o of head_out in f32 and o^ under a plan, over all tokens and channels:
//
//   nmse    sum (o^ - o)^2 / sum o^2
//
// 1e-4 is a relative error of 1 %; independent errors of sites add up. Units of its errors are sequences.
#pragma once

#include <map>
#include <vector>

#include "experiments/observe/captured/captured_statistics.h"
#include "experiments/studies/attribution/attribution.h"

namespace tare {

// How q, k and v were read: sequences, their tokens, heads, width and maps. Throws Error where heads do not fit.
Json ReadAs(const CapturedInput& input);

// One for each layer that has q, k and v. Throws Error, naming file and array, where there is none, where the arrays do
// not fit the layout's heads, and where a captured head_out is not what they give.
std::vector<Attribution> AttributeCaptured(const CapturedInput& input, const Plan& plan, const Progress& progress);

// The figure of each layer with the whole plan on integer kernels. Throws Error, too, for a plan that they cannot run.
std::map<int, double> ExecutedLosses(const CapturedInput& input, const Plan& plan, const Progress& progress);

}  // namespace tare
