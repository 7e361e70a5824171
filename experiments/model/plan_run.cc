// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/plan_run.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "experiments/model/attention/rotary.h"
#include "experiments/plan/resolved_plan.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

// A rule for keys with +prerotary; null if there is none.
const Rule* BeforeRotary(const Plan& plan) {
  const auto found = std::ranges::find_if(plan.rules(), [](const Rule& rule) {
    return rule.options.prerotary && rule.format != Format::kF32 && !IsCache(rule.sites.front());
  });
  return found == plan.rules().end() ? nullptr : &*found;
}

}  // namespace

PlanRun::PlanRun(Plan plan, Carrying carrying, const ModelSites& model, const StaticSource& statics,
                 const std::optional<CachePlan>& cache)
    : resolved_(std::move(plan), model, carrying, statics),
      cache_(CachePlanOf(resolved_.plan(), cache)),
      key_value_bits_(KeyValueBitsOf(resolved_.plan(), cache_ ? cache_->rules : resolved_.plan(), model)),
      quantizer_(resolved_),
      sink_(resolved_.plan()) {
  if (cache_) {
    for (const Rule& rule : cache_->rules.rules()) CheckRule(rule, model);
    CheckDecodes(resolved_);
  }
  if (carrying == Carrying::kSimulated && !resolved_.plan().empty()) visitors_ = {&quantizer_, &sink_};
}

PlanRun::PlanRun(PromptPlan plan, const ModelSites& model, const CachePlan& cache)
    : PlanRun(std::move(plan.others), Carrying::kExecuted, model, {}, cache) {
  prompts_ = std::move(plan.attention);
}

bool PlanRun::ExecutesAttention() const {
  return std::ranges::any_of(resolved_.attention(), &std::optional<ExecutedPlan>::has_value);
}

void PlanRun::RefuseCache(std::string_view where) const {
  if (cache_)
    Fail("{}: got {}, expected a plan without cache_k and cache_v, as nothing is decoded here; try tare eval", where,
         Name(*cache_));
}

SiteVisitors PlanRun::Begin(Model& model, const Model::PlanProgress& progress) {
  model.CarryOut({resolved_, prompts_, streams_}, progress);
  if (const Rule* before = BeforeRotary(plan())) {
    std::vector<std::shared_ptr<const KeyRotary>> rotaries;
    for (int layer = 0; layer < model.config().layers; ++layer)
      rotaries.push_back(KeyRotaryOf(model.config(), layer, Formatted("plan rule '{}'", before->text)));
    quantizer_.SetKeyRotaries(std::move(rotaries));
  }
  return visitors_;
}

}  // namespace tare
