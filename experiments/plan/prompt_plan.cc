// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/prompt_plan.h"

#include <algorithm>
#include <functional>
#include <string>

#include "experiments/plan/refusals.h"
#include "experiments/plan/resolved_plan.h"
#include "quant/base/error.h"

namespace tare {
namespace {

bool IsOfAttention(const Rule& rule) { return std::ranges::contains(kAttentionSites, rule.sites.front()); }

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
  PromptPlan parts{.others = plan.Select(std::not_fn(IsOfAttention)), .attention = {}};
  const Plan attention = plan.Select(IsOfAttention);
  if (std::ranges::none_of(kAttentionSites, [&](Site site) { return attention.Touches(site); })) return parts;
  parts.attention = ResolvedPlan(attention, model, Carrying::kExecuted).attention();
  for (const Rule& rule : attention.rules()) CheckUse(rule, Use::kInParts);
  CheckPolicy(policy);
  return parts;
}

}  // namespace tare
