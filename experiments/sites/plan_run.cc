// SPDX-License-Identifier: Apache-2.0
#include "experiments/sites/plan_run.h"

namespace tare {

PlanRun::PlanRun(Plan plan, Carrying carrying, const ModelSites& model, const StaticSource& statics)
    : resolved_(std::move(plan), model, carrying, statics), quantizer_(resolved_) {
  if (carrying == Carrying::kSimulated && !resolved_.plan().empty()) visitors_.push_back(&quantizer_);
}

SiteVisitors PlanRun::Begin(Model& model) {
  model.CarryOut(resolved_);
  return visitors_;
}

}  // namespace tare
