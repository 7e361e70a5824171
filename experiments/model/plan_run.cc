// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/plan_run.h"

#include "quant/base/error.h"

namespace tare {

PlanRun::PlanRun(Plan plan, Carrying carrying, const ModelSites& model, const StaticSource& statics)
    : resolved_(std::move(plan), model, carrying, statics), quantizer_(resolved_), sink_(resolved_.plan()) {
  if (carrying == Carrying::kSimulated && !resolved_.plan().empty()) visitors_ = {&quantizer_, &sink_};
}

SiteVisitors PlanRun::Begin(Model& model) {
  model.CarryOut(resolved_);
  return visitors_;
}

void CheckDecodes(const PlanRun& run) {
  for (const Site site : {Site::kAttnLogits, Site::kProbs, Site::kDifference}) {
    if (run.plan().Touches(site))
      Fail(
          "plan over a cache: got a rule for {}, expected none: decoding shows no maps; try the plan without it, or "
          "`tare "
          "eval` without --cache",
          Name(site));
  }
  if (run.LooksAhead())
    Fail(
        "plan over a cache: got scales that span tokens, expected scales of one token: the others come later; try "
        "token, row, or channel of weights");
  if (run.carrying() == Carrying::kExecuted && run.plan().Touches(Site::kQ))
    Fail(
        "plan over a cache: got executed attention, expected the cache's own; try the plan without rules for q, k and "
        "v");
}

}  // namespace tare
