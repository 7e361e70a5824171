// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/plan_run.h"

#include "experiments/plan/rule_checks.h"
#include "quant/base/error.h"

namespace tare {

PlanRun::PlanRun(Plan plan, Carrying carrying, const ModelSites& model, const StaticSource& statics,
                 const std::optional<CachePlan>& cache)
    : resolved_(std::move(plan), model, carrying, statics),
      cache_(CachePlanOf(resolved_.plan(), cache)),
      quantizer_(resolved_),
      sink_(resolved_.plan()) {
  if (cache_) {
    for (const Rule& rule : cache_->rules.rules()) CheckRule(rule, model);
    CheckDecodes(resolved_);
  }
  if (carrying == Carrying::kSimulated && !resolved_.plan().empty()) visitors_ = {&quantizer_, &sink_};
}

void PlanRun::RefuseCache(std::string_view where) const {
  if (cache_)
    Fail("{}: got {}, expected a plan without cache_k and cache_v, as nothing is decoded here; try tare eval", where,
         Name(*cache_));
}

SiteVisitors PlanRun::Begin(Model& model) {
  model.CarryOut(resolved_);
  return visitors_;
}

}  // namespace tare
