// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/cache_plan.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "experiments/plan/refusals.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr std::pair<KeepPolicy, std::string_view> kPolicies[] = {{KeepPolicy::kWindow, "window"},
                                                                 {KeepPolicy::kH2o, "h2o"},
                                                                 {KeepPolicy::kDifference, "difference"},
                                                                 {KeepPolicy::kSnapKv, "snapkv"},
                                                                 {KeepPolicy::kSnapKvDifference, "snapkv-difference"}};
constexpr std::pair<int64_t, std::string_view> kUnits[] = {{1'000'000'000, "GB"}, {1'000'000, "MB"}, {1000, "kB"}};

// Sums of a few fit 64 bits.
constexpr int64_t kMost = 1'000'000'000;

int64_t TokensOf(std::string_view rule, std::string_view text) {
  const auto tokens = ParseNumber<int64_t>(text).value_or(-1);
  if (tokens < 0 || tokens > kMost)
    Fail("cache, '{}': got '{}', expected a number of tokens, at most {}", rule, text, kMost);
  return tokens;
}

void ReadSkip(std::string_view rule, std::string_view text, CachePolicy& policy) {
  const float skip = ParseNumber<float>(text).value_or(-1);
  if (!(skip >= 0 && skip < 1)) Fail("cache, '{}': got '{}', expected a number of 0 or more below 1", rule, text);
  policy.skip = skip;
}

void ReadBudget(std::string_view rule, std::string_view text, KeepRule& keep) {
  int64_t unit = 0;
  std::string_view digits = text;
  for (const auto& [bytes, name] : kUnits) {
    if (!text.ends_with(name)) continue;
    unit = bytes;
    digits.remove_suffix(name.size());
    break;
  }
  const auto number = ParseNumber<int64_t>(digits).value_or(0);
  if (number < 1 || number > kMost)
    Fail("cache, '{}': got a budget of '{}', expected keys or bytes; try keep=h2o/256 or keep=h2o/64kB", rule, text);
  (unit == 0 ? keep.keys : keep.bytes) = unit == 0 ? number : number * unit;
}

void ReadKeep(std::string_view rule, std::string_view text, CachePolicy& policy) {
  policy.keep = {};
  if (text == "all") return;
  const size_t slash = text.find('/');
  for (const auto& [keep, name] : kPolicies) {
    if (text.substr(0, slash) == name) policy.keep.policy = keep;
  }
  if (!policy.keep.Drops())
    Fail("cache, '{}': got '{}', expected all, or one of {} with a budget; try keep=h2o/256", rule, text,
         Listed(KeepPolicies(), ", "));
  ReadBudget(rule, slash == std::string_view::npos ? "" : text.substr(slash + 1), policy.keep);
}

// The text of a number; "" for the default, 0.
std::string NumberText(auto number) { return number > 0 ? Formatted("{}", number) : ""; }

std::string KeepText(const CachePolicy& policy) {
  const KeepRule& keep = policy.keep;
  if (!keep.Drops()) return "";
  const std::string_view name =
      std::ranges::find(kPolicies, keep.policy, &std::pair<KeepPolicy, std::string_view>::first)->second;
  if (keep.bytes == 0) return Formatted("{}/{}", name, keep.keys);
  for (const auto& [bytes, unit] : kUnits)
    if (keep.bytes % bytes == 0) return Formatted("{}/{}{}", name, keep.bytes / bytes, unit);
  Fail("cache, keep: got {} bytes, expected whole kB", keep.bytes);
}

// One table of rules: a new rule is one line and the two functions that read and write it.
struct PolicyRule {
  std::string_view name;
  void (*read)(std::string_view rule, std::string_view text, CachePolicy& policy);
  std::string (*text)(const CachePolicy& policy);  // right of the =; "" for the default
};
constexpr PolicyRule kRules[] = {
    {"first", [](std::string_view rule, std::string_view text, CachePolicy& p) { p.first = TokensOf(rule, text); },
     [](const CachePolicy& p) { return NumberText(p.first); }},
    {"last", [](std::string_view rule, std::string_view text, CachePolicy& p) { p.last = TokensOf(rule, text); },
     [](const CachePolicy& p) { return NumberText(p.last); }},
    {"keep", ReadKeep, KeepText},
    {"skip", ReadSkip, [](const CachePolicy& p) { return NumberText(p.skip); }}};

// The site's rules from the last one for all layers on; that is f32 if there is none.
Plan RulesOf(Site site, const Plan& plan) {
  Plan rules = Plan().Append(RuleFor(site));
  for (const Rule& rule : plan.rules()) {
    if (rule.sites.front() != site) continue;
    if (rule.selector == Selector{}) rules = {};
    rules.Append(rule);
  }
  return rules;
}

Plan CacheRulesIn(const Plan& plan) { return RulesOf(Site::kCacheK, plan).Append(RulesOf(Site::kCacheV, plan)); }

CacheRule RuleOf(const Rule& rule) {
  return {.format = rule.format, .granularity = rule.granularity, .hadamard = rule.options.hadamard};
}

CacheRule RuleAt(const CachePlan& plan, const SiteKey& key) {
  const Rule& rule = *plan.rules.Match(key);
  CacheRule of_layer = RuleOf(rule);
  if (!rule.options.static_scale) return of_layer;
  if (!plan.clips.contains(key)) CheckUse(rule, Use::kUnmeasured);
  of_layer.clip = plan.clips.at(key);
  return of_layer;
}

void CheckRules(const CachePlan& plan) {
  for (const Rule& rule : plan.rules.rules()) {
    CheckUse(rule, Use::kAny);
    if (!plan.policy.keep.Drops()) continue;
    if (RuleOf(rule).ByChannel() || rule.options.prerotary)
      Fail("cache, '{}': got keep= beside scales per channel or keys before rotary, which cannot move; try /token",
           Name(plan));
  }
}

}  // namespace

std::vector<std::string_view> KeepPolicies() { return kPolicies | std::views::values | std::ranges::to<std::vector>(); }

bool ReadPolicy(std::string_view rule, CachePolicy& policy) {
  const size_t equals = rule.find('=');
  const auto* const found = std::ranges::find(kRules, Trimmed(rule.substr(0, equals)), &PolicyRule::name);
  if (found == std::end(kRules)) return false;
  found->read(rule, equals == std::string_view::npos ? "" : Trimmed(rule.substr(equals + 1)), policy);
  return true;
}

std::string TextOf(const CachePolicy& policy) {
  std::string all;
  for (const PolicyRule& rule : kRules) {
    const std::string text = rule.text(policy);
    if (!text.empty()) all += Formatted(",{}={}", rule.name, text);
  }
  return all;
}

CacheRules CachePlan::OfLayer(int layer) const {
  const bool before_rotary = rules.Match({Site::kCacheK, layer})->options.prerotary;
  return {.k = RuleAt(*this, {Site::kCacheK, layer}),
          .v = RuleAt(*this, {Site::kCacheV, layer}),
          .keys = before_rotary ? KeptKeys::kBeforeRotary : KeptKeys::kAfterRotary,
          .first = policy.first,
          .last = policy.last};
}

CachePlan ParseCachePlan(std::string_view text) {
  CachePlan plan;
  std::string rules;
  for (const std::string_view rule : SplitRules(text)) {
    if (ReadPolicy(rule, plan.policy)) continue;
    const std::string_view trimmed = Trimmed(rule), name = trimmed.substr(0, trimmed.find_first_of(" \t\r\n[="));
    if (name != Name(Site::kCacheK) && name != Name(Site::kCacheV))
      Fail(
          "cache, '{}': got '{}', expected cache_k, cache_v, first, last, keep or skip; try "
          "cache_k=int4/token,cache_v=int4/token",
          rule, name);
    rules += Formatted("{}{}", rules.empty() ? "" : ",", rule);
  }
  plan.rules = CacheRulesIn(Plan::Parse(rules));
  CheckRules(plan);
  return plan;
}

std::optional<CachePlan> CachePlanOf(const Plan& plan, const std::optional<CachePlan>& base) {
  if (!plan.NamesCaches()) return base;
  CachePlan caches = base.value_or(CachePlan{});
  caches.rules = CacheRulesIn(caches.rules.Append(plan));
  CheckRules(caches);
  return caches;
}

std::string Name(const CachePlan& plan) { return plan.rules.canonical() + TextOf(plan.policy); }

}  // namespace tare
