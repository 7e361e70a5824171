// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/resolved_plan.h"

#include <algorithm>

#include "experiments/plan/rule_checks.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

// Whether a scale belongs to one token, row or group, regardless of other rows.
bool IsByRow(const Rule& rule) {
  const Kind kind = rule.granularity.kind;
  return kind == Kind::kRow || kind == Kind::kToken || kind == Kind::kHeads || kind == Kind::kGroup ||
         kind == Kind::kBlock || rule.options.static_scale;
}

// The magnitude that becomes the largest code by the scale that another tool's file has for these inputs.
std::optional<float> StoredClip(const Rule& rule, const SiteKey& key, const ModelSites& model) {
  const std::optional<Site> weight = WeightOf(key.site);
  if (!weight || rule.granularity.kind != Kind::kTensor || rule.options.percentile || rule.options.mse)
    return std::nullopt;
  const auto stored = model.weights.find({*weight, key.layer});
  if (stored == model.weights.end() || !stored->second.input_scale) return std::nullopt;
  return *stored->second.input_scale * Info(rule.format).Largest();
}

}  // namespace

bool NeedsSurvey(const Rule& rule) {
  const Kind kind = rule.granularity.kind;
  if (HasTensorScale(rule)) return true;
  const bool of_blocks = kind == Kind::kTensor || kind == Kind::kHead || kind == Kind::kHeads;
  return rule.format != Format::kF32 && of_blocks && !rule.options.static_scale;
}

bool HasTensorScale(const Rule& rule) {
  const Site site = rule.sites.front();
  return IsTwoLevel(rule.format.scale) && site != Site::kProbs && site != Site::kDifference;
}

bool HasZeroPoint(const Rule& rule) {
  return rule.sites.front() == Site::kDifference && IsInteger(rule.format) && Info(rule.format).min_code == 0;
}

ResolvedPlan::ResolvedPlan(Plan plan, const ModelSites& model, Carrying carrying, const StaticSource& statics)
    : plan_(std::move(plan)), carrying_(carrying) {
  for (const Rule& rule : plan_.rules()) CheckRule(rule, model);
  CheckWeights(*this, model);
  if (plan_.NamesCaches()) CheckDecodes(*this);
  if (carrying == Carrying::kStored) CheckStored(*this, model);
  if (carrying == Carrying::kExecuted) {
    CheckExecuted(*this, model);
    for (int layer = 0; layer < model.layers; ++layer) attention_.push_back(ExecutedPlanOf(*this, model, layer));
  }
  for (const SiteInfo& info : kSites) {
    for (const SiteKey& key : model.Keys(info.site)) {
      const Rule* rule = RuleAt(key);
      if (rule == nullptr || !rule->options.static_scale) continue;
      if (const std::optional<float> clip = statics ? std::nullopt : StoredClip(*rule, key, model)) {
        clips_[key] = {*clip};
        continue;
      }
      if (!statics) CheckUse(*rule, Use::kUnmeasured);
      clips_[key] = statics(*rule, key);
    }
  }
}

const Rule* ResolvedPlan::RuleAt(const SiteKey& key) const {
  const Rule* rule = plan_.Match(key);
  return rule == nullptr || rule->format == Format::kF32 ? nullptr : rule;
}

bool ResolvedPlan::NeedsSurvey(Site site) const {
  return std::ranges::any_of(plan_.rules(), [site](const Rule& rule) {
    return tare::NeedsSurvey(rule) && std::ranges::contains(rule.sites, site);
  });
}

bool SpansRows(const Plan& plan) {
  return std::ranges::any_of(plan.rules(), [](const Rule& rule) {
    return rule.format != Format::kF32 && !IsWeight(rule.sites.front()) && !IsCache(rule.sites.front()) &&
           (!IsByRow(rule) || HasTensorScale(rule) || rule.options.smooth);
  });
}

}  // namespace tare
