// SPDX-License-Identifier: Apache-2.0
// awq: equivalent weights by AWQ's factors for a whole model, then clipped ranges of groups
// (quant/algorithms/channel_factors.h). The factors are searched on a calibration text: for each input of linear layers
// that the family can scale, the ratio with the least squared error of the outputs of all linear layers with that
// input, rounded to nearest as the plan says. Inputs are those of the stored model. The ranges need codes: rtn, if no
// other step makes them.
//
// The error is exact on all tokens, through second moments. llm-awq compares the outputs of attention and of the whole
// feed-forward block for their first layers, on sampled tokens; for o_proj and down_proj its error is this one. Where
// heads share a V it leaves o_proj alone; here they share its factors.
#pragma once

#include <vector>

#include "experiments/model/model.h"
#include "experiments/passes/progress.h"
#include "experiments/passes/sequences.h"
#include "experiments/quantize/equivalent_weights.h"
#include "quant/plan/plan.h"

namespace tare {

// Throws Error unless the family can scale inputs, and the plan rounds weights with such an input.
void CheckAwq(const ModelConfig& config, const Plan& plan);

// As CheckAwq. An input without an entry keeps its weights: no ratio is better than none, or the plan rounds nothing
// there. Memory: an input's second moments, and one matrix four times in f32.
std::vector<LayerSmoothing> AwqScalingOf(Model& model, const std::vector<ScoredSequence>& text, const Plan& plan,
                                         const Progress& progress);

}  // namespace tare
