// SPDX-License-Identifier: Apache-2.0
// Errors of every layer's maps under a plan, each layer by itself: it gets the exact model's input, so that the errors
// are those of the plan in this layer and not of earlier layers. Two copies of the model run side by side, one under
// the plan; the maps of a batch and layer are held twice, 2 (3 T^2 / 2 to 5 T^2 / 2) floats per head and sequence of
// T.
//
// Maps are subtracted with the exact lambda: a plan's rules for lambda, difference and later sites have no effect
// here.
#pragma once

#include <vector>

#include "experiments/model/plan_run.h"
#include "experiments/passes/sequences.h"
#include "experiments/studies/attribution/map_errors.h"

namespace tare {

// [layers][sequences], each over all heads and rows. Throws Error for a plan that is executed, which shows no maps.
std::vector<std::vector<MapErrors>> MeasureMapErrors(Model& exact, Model& planned, PlanRun& run,
                                                     const std::vector<ScoredSequence>& sequences,
                                                     const Progress& progress);

}  // namespace tare
