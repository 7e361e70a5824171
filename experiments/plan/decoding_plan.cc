// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/decoding_plan.h"

#include <charconv>
#include <ranges>
#include <utility>

#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

constexpr std::string_view kRotated = "+hadamard", kBeforeRotary = "+prerotary";
constexpr std::pair<KeepPolicy, std::string_view> kPolicies[] = {{KeepPolicy::kWindow, "window"},
                                                                 {KeepPolicy::kH2o, "h2o"},
                                                                 {KeepPolicy::kDifference, "difference"},
                                                                 {KeepPolicy::kSnapKv, "snapkv"},
                                                                 {KeepPolicy::kSnapKvDifference, "snapkv-difference"}};
constexpr std::pair<int64_t, std::string_view> kUnits[] = {{1'000'000'000, "GB"}, {1'000'000, "MB"}, {1000, "kB"}};

std::string NameOf(const CacheRule& rule) {
  std::string name = Name(rule.format);
  if (HasCodes(rule.format)) name += rule.ByChannel() ? "/channel" : "/token";
  if (rule.rotation == CacheRotation::kHadamard) name += kRotated;
  return name;
}

CacheRule RuleOf(std::string_view rule, std::string_view text) {
  for (const CacheFormat format :
       {CacheFormat::kF32, CacheFormat::kBf16, CacheFormat::kInt8, CacheFormat::kInt6, CacheFormat::kInt4}) {
    for (const CacheScales scales : {CacheScales::kToken, CacheScales::kChannel}) {
      for (const CacheRotation rotation : {CacheRotation::kNone, CacheRotation::kHadamard}) {
        const CacheRule one{.format = format, .scales = scales, .rotation = rotation};
        if (text == NameOf(one)) return one;
      }
    }
  }
  Fail("cache, '{}': got '{}', expected f32, bf16, or int8, int6 or int4 with /token or /channel, and +hadamard or not",
       rule, text);
}

// All of the text, or nothing.
template <typename T>
bool ReadNumber(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

int64_t TokensOf(std::string_view rule, std::string_view text) {
  int64_t tokens = -1;
  if (!ReadNumber(text, tokens) || tokens < 0) Fail("cache, '{}': got '{}', expected a number of tokens", rule, text);
  return tokens;
}

float SkipOf(std::string_view rule, std::string_view text) {
  float skip = -1;
  if (!ReadNumber(text, skip) || !(skip >= 0 && skip < 1))
    Fail("cache, '{}': got '{}', expected a number of 0 or more below 1", rule, text);
  return skip;
}

void ReadBudget(std::string_view rule, std::string_view text, KeepRule& keep) {
  int64_t number = 0, unit = 0;
  std::string_view digits = text;
  for (const auto& [bytes, name] : kUnits) {
    if (!text.ends_with(name)) continue;
    unit = bytes;
    digits.remove_suffix(name.size());
    break;
  }
  constexpr int64_t kMost = 1'000'000'000;
  if (!ReadNumber(digits, number) || number < 1 || number > kMost)
    Fail("cache, '{}': got a budget of '{}', expected keys or bytes; try keep=h2o/256 or keep=h2o/64kB", rule, text);
  (unit == 0 ? keep.keys : keep.bytes) = unit == 0 ? number : number * unit;
}

KeepRule KeepOf(std::string_view rule, std::string_view text) {
  const size_t slash = text.find('/');
  const std::string_view name = text.substr(0, slash);
  KeepRule keep;
  if (text == "all") return keep;
  for (const auto& [policy, of_policy] : kPolicies)
    if (name == of_policy) keep.policy = policy;
  if (!keep.Drops())
    Fail(
        "cache, '{}': got '{}', expected all, or window, h2o, difference, snapkv or snapkv-difference with a budget; "
        "try "
        "keep=h2o/256",
        rule, text);
  ReadBudget(rule, slash == std::string_view::npos ? "" : text.substr(slash + 1), keep);
  return keep;
}

std::string NameOf(const KeepRule& keep) {
  const auto* const policy =
      std::ranges::find_if(kPolicies, [&](const auto& entry) { return entry.first == keep.policy; });
  if (keep.bytes == 0) return Formatted("{}/{}", policy->second, keep.keys);
  for (const auto& [bytes, name] : kUnits)
    if (keep.bytes % bytes == 0) return Formatted("{}/{}{}", policy->second, keep.bytes / bytes, name);
  Fail("cache, keep: got {} bytes, expected whole kB", keep.bytes);
}

void ReadRule(std::string_view rule, DecodingPlan& plan) {
  const size_t equals = rule.find('=');
  const std::string_view name = rule.substr(0, equals);
  std::string_view value = equals == std::string_view::npos ? "" : rule.substr(equals + 1);
  if (name == "cache_k") {
    const bool before = value.ends_with(kBeforeRotary);
    if (before) value.remove_suffix(kBeforeRotary.size());
    plan.cache.k = RuleOf(rule, value);
    plan.cache.keys = before ? KeptKeys::kBeforeRotary : KeptKeys::kAfterRotary;
  } else if (name == "cache_v") {
    plan.cache.v = RuleOf(rule, value);
  } else if (name == "first") {
    plan.cache.first = TokensOf(rule, value);
  } else if (name == "last") {
    plan.cache.last = TokensOf(rule, value);
  } else if (name == "keep") {
    plan.keep = KeepOf(rule, value);
  } else if (name == "skip") {
    plan.skip = SkipOf(rule, value);
  } else {
    Fail(
        "cache, '{}': got '{}', expected cache_k, cache_v, first, last, keep or skip; try "
        "cache_k=int4/token,cache_v=int4/token",
        rule, name);
  }
}

}  // namespace

DecodingPlan ParseDecodingPlan(std::string_view text) {
  DecodingPlan plan;
  for (const auto part : std::views::split(text, ',')) ReadRule(std::string_view(part), plan);
  const CachePlan& cache = plan.cache;
  if (plan.keep.Drops() && (cache.k.ByChannel() || cache.v.ByChannel() || cache.keys == KeptKeys::kBeforeRotary))
    Fail("cache, '{}': got keep= beside scales per channel or keys before rotary, which cannot move; try /token", text);
  return plan;
}

std::string Name(const DecodingPlan& plan) {
  const CachePlan& cache = plan.cache;
  std::string name = Formatted("cache_k={}{},cache_v={}", NameOf(cache.k),
                               cache.keys == KeptKeys::kBeforeRotary ? kBeforeRotary : "", NameOf(cache.v));
  if (cache.first > 0) name += Formatted(",first={}", cache.first);
  if (cache.last > 0) name += Formatted(",last={}", cache.last);
  if (plan.keep.Drops()) name += ",keep=" + NameOf(plan.keep);
  if (plan.skip > 0) name += Formatted(",skip={}", plan.skip);
  return name;
}

}  // namespace tare
