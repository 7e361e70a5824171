// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/cache_plan.h"

#include <algorithm>

#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

std::string_view NameOf(std::string_view rule) {
  const size_t begin = std::min(rule.find_first_not_of(" \t\r\n"), rule.size());
  return rule.substr(begin, rule.find_first_of(" \t\r\n[=", begin) - begin);
}

// The site's rules from the last that holds in all layers on, which is f32 where there is none.
std::string RulesOf(Site site, const Plan& plan) {
  std::string text = Formatted("{}=f32", Name(site));
  for (const Rule& rule : plan.rules()) {
    if (rule.sites.front() != site) continue;
    text = rule.selector == Selector{} ? rule.text : Formatted("{},{}", text, rule.text);
  }
  return text;
}

// Those of both sites, in one spelling.
Plan CacheRulesIn(const Plan& plan) {
  return Plan::Parse(Formatted("{},{}", RulesOf(Site::kCacheK, plan), RulesOf(Site::kCacheV, plan)));
}

CacheRule RuleOf(const Rule& rule) {
  return {.format = rule.format, .granularity = rule.granularity, .hadamard = rule.options.hadamard};
}

void CheckKept(const CachePlan& plan) {
  if (!plan.policy.keep.Drops()) return;
  for (const Rule& rule : plan.rules.rules()) {
    if (RuleOf(rule).ByChannel() || rule.options.prerotary)
      Fail("cache, '{}': got keep= beside scales per channel or keys before rotary, which cannot move; try /token",
           Name(plan));
  }
}

}  // namespace

CacheRules CachePlan::OfLayer(int layer) const {
  const Rule& k = *rules.Match({Site::kCacheK, layer});
  return {.k = RuleOf(k),
          .v = RuleOf(*rules.Match({Site::kCacheV, layer})),
          .keys = k.options.prerotary ? KeptKeys::kBeforeRotary : KeptKeys::kAfterRotary,
          .first = policy.first,
          .last = policy.last};
}

CachePlan ParseCachePlan(std::string_view text) {
  CachePlan plan;
  std::string rules;
  for (const std::string_view rule : SplitRules(text)) {
    if (ReadPolicy(rule, plan.policy)) continue;
    const std::string_view name = NameOf(rule);
    if (name != Name(Site::kCacheK) && name != Name(Site::kCacheV))
      Fail(
          "cache, '{}': got '{}', expected cache_k, cache_v, first, last, keep or skip; try "
          "cache_k=int4/token,cache_v=int4/token",
          rule, name);
    rules += Formatted("{}{}", rules.empty() ? "" : ",", rule);
  }
  plan.rules = CacheRulesIn(Plan::Parse(rules));
  CheckKept(plan);
  return plan;
}

std::optional<CachePlan> CachePlanOf(const Plan& plan, const std::optional<CachePlan>& base) {
  if (!plan.NamesCaches()) return base;
  CachePlan caches = base.value_or(CachePlan{});
  caches.rules = CacheRulesIn(Plan::Parse(Formatted("{},{}", caches.rules.canonical(), plan.canonical())));
  CheckKept(caches);
  return caches;
}

std::string Name(const CachePlan& plan) { return plan.rules.canonical() + TextOf(plan.policy); }

}  // namespace tare
