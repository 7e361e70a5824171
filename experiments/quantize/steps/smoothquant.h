// SPDX-License-Identifier: Apache-2.0
// smoothquant[:ALPHA]: equivalent weights by SmoothQuant's factors for a whole model (channel_transforms.h in
// quant/algorithms), from the largest inputs in a statistics file or calibration text. ALPHA: 0 to 1, else searched.
//
// The search takes for each input alpha of 0, 0.1 .. 1, or no smoothing: the least squared error of outputs on at most
// 512 spread tokens, weights and inputs rounded by the plan. (The paper's, per model by accuracy, needs evaluations.)
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

// alpha: empty: searched, for plans with weights or linear_in. kept: CalibrationPass. round: the next step's, or empty.
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
