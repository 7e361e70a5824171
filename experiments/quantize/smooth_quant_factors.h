// SPDX-License-Identifier: Apache-2.0
// SmoothQuant's factors for a whole model (quant/algorithms/smoothquant.h), from largest magnitudes of inputs that a
// statistics file or a calibration text has, with alpha given or searched.
//
// Searched: for each input of linear layers alpha of 0, 0.1 .. 1, or no smoothing, whichever makes the outputs' squared
// error least on at most 512 tokens spread over the text, weights and inputs rounded to nearest as the plan says. (The
// paper searches one alpha per model by accuracy; a search per layer needs no evaluation.)
#pragma once

#include <optional>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/passes/progress.h"
#include "experiments/passes/sequences.h"
#include "experiments/quantize/equivalent_weights.h"
#include "quant/observe/statistics_set.h"
#include "quant/plan/plan.h"

namespace tare {

// Throws Error where the file has not seen an input.
std::vector<LayerSmoothing> SmoothingOf(const Model& model, const StatisticsSet& seen, double alpha);

// alpha: nothing is searched, and needs a plan that quantizes weights or linear_in.
std::vector<LayerSmoothing> SmoothingOf(Model& model, const std::vector<ScoredSequence>& text, const Plan& plan,
                                        std::optional<double> alpha, const Progress& progress);

}  // namespace tare
