// SPDX-License-Identifier: Apache-2.0
// A quantizer together with its plan, for a configuration without a checkpoint.
#pragma once

#include "experiments/model/plan_run.h"
#include "experiments/plan/simulated/simulated_quantizer.h"

namespace tare {

struct HeldPlan {
  ResolvedPlan resolved;
};

struct SimulatedPlan : HeldPlan, SimulatedQuantizer {
  SimulatedPlan(const std::string& plan, const ModelConfig& config, const StaticSource& statics = {})
      : HeldPlan{{Plan::Parse(plan), ModelSitesOf(config), Carrying::kSimulated, statics}},
        SimulatedQuantizer(resolved) {}
};

}  // namespace tare
