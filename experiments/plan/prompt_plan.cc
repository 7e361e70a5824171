// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/prompt_plan.h"

#include <algorithm>
#include <array>
#include <string>

#include "experiments/plan/resolved_plan.h"
#include "experiments/plan/rule_checks.h"
#include "quant/base/error.h"

namespace tare {
namespace {

constexpr std::array kAttention{Site::kQ, Site::kK, Site::kV, Site::kAttnLogits, Site::kProbs, Site::kDifference};

bool IsOfAttention(const Rule& rule) { return std::ranges::contains(kAttention, rule.sites.front()); }

template <typename Taken>
Plan RulesOf(const Plan& plan, const Taken& taken) {
  std::string text;
  for (const Rule& rule : plan.rules()) {
    if (taken(rule)) text += (text.empty() ? "" : ",") + rule.text;
  }
  return Plan::Parse(text);
}

void CheckRuleOfParts(const Rule& rule) {
  if (rule.options.smooth)
    RefuseRule(rule, "+smooth", "none over a cache, as a prompt comes in parts", "it without +smooth");
  if (rule.sites.front() == Site::kV && rule.granularity.kind == Granularity::Kind::kChannel)
    RefuseRule(rule, ScaleText(rule), "one per block<N>.channel over a cache, as a prompt comes in parts",
               "block64.channel");
}

void CheckPolicy(const CachePolicy& policy) {
  CachePolicy others = policy;
  others.first = 0;
  if (const std::string text = TextOf(others); !text.empty())
    FailUsage(
        "plan over a cache: got rules for attention beside {}, which moves the cache with every token, expected no "
        "policy but first=; try one without the other",
        text.substr(1));
}

}  // namespace

PromptPlan PromptPlanOf(const Plan& plan, const ModelSites& model, const CachePolicy& policy) {
  PromptPlan parts{.others = RulesOf(plan, [](const Rule& rule) { return !IsOfAttention(rule); }), .attention = {}};
  const Plan attention = RulesOf(plan, IsOfAttention);
  if (std::ranges::none_of(kAttention, [&](Site site) { return attention.Touches(site); })) return parts;
  parts.attention = ResolvedPlan(attention, model, Carrying::kExecuted).attention();
  for (const Rule& rule : attention.rules()) {
    if (rule.format != Format::kF32) CheckRuleOfParts(rule);
  }
  CheckPolicy(policy);
  return parts;
}

}  // namespace tare
