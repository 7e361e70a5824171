// SPDX-License-Identifier: Apache-2.0
// smoothquant[:ALPHA]: equivalent weights by SmoothQuant's factors for a whole model (channel_transforms.h in
// quant/algorithms). ALPHA is from 0 to 1, and searched on the calibration text if it is not given. The factors follow
// from the largest magnitudes of inputs in a statistics file or a calibration text.
//
// The search chooses, for each input of linear layers, alpha from 0, 0.1 .. 1, or no smoothing, whichever gives the
// least squared error of the outputs on at most 512 tokens spread over the text, with weights and inputs rounded to
// nearest as the plan says. (The paper searches one alpha per model by accuracy; a search per layer needs no
// evaluation.)
#pragma once

#include <memory_resource>
#include <optional>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/passes/sequences.h"
#include "experiments/quantize/equivalent_weights.h"
#include "experiments/quantize/quantize.h"
#include "quant/observe/statistics_set.h"
#include "quant/plan/plan.h"

namespace tare {

// Throws Error if the file has no statistics of an input.
std::vector<LayerSmoothing> SmoothingOf(const Model& model, const StatisticsSet& seen, double alpha);

// alpha: if empty, it is searched, which needs a plan that quantizes weights or linear_in. kept: CalibrationPass.
// round: how the step after it rounds matrices; empty: to nearest.
std::vector<LayerSmoothing> SmoothingOf(Model& model, const std::vector<ScoredSequence>& text, const Plan& plan,
                                        std::optional<double> alpha, const Progress& progress,
                                        std::pmr::memory_resource& kept = *std::pmr::new_delete_resource(),
                                        const RoundMatrix& round = {});

// Throws Error unless the family can scale inputs, and the plan rounds weights with such an input.
void CheckAwq(const ModelConfig& config, const Plan& plan);

// For what CheckAwq accepts. An input without an entry keeps its weights: no ratio is better than none, or the plan
// rounds nothing there. Memory: an input's second moments, and one matrix four times in f32.
std::vector<LayerSmoothing> AwqScalingOf(Model& model, const std::vector<ScoredSequence>& text, const Plan& plan,
                                         const Progress& progress,
                                         std::pmr::memory_resource& kept = *std::pmr::new_delete_resource());

}  // namespace tare
