// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/cache_plan.h"

#include <charconv>
#include <ranges>

#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

constexpr std::string_view kRotated = "+hadamard";

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

int64_t TokensOf(std::string_view rule, std::string_view text) {
  int64_t tokens = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), tokens);
  if (error != std::errc() || end != text.data() + text.size() || tokens < 0)
    Fail("cache, '{}': got '{}', expected a number of tokens", rule, text);
  return tokens;
}

}  // namespace

CachePlan ParseCachePlan(std::string_view text) {
  CachePlan plan;
  for (const auto part : std::views::split(text, ',')) {
    const std::string_view rule(part);
    const size_t equals = rule.find('=');
    const std::string_view name = rule.substr(0, equals),
                           value = equals == std::string_view::npos ? "" : rule.substr(equals + 1);
    if (name == "cache_k") {
      plan.k = RuleOf(rule, value);
    } else if (name == "cache_v") {
      plan.v = RuleOf(rule, value);
    } else if (name == "first") {
      plan.first = TokensOf(rule, value);
    } else if (name == "last") {
      plan.last = TokensOf(rule, value);
    } else {
      Fail("cache, '{}': got '{}', expected cache_k, cache_v, first or last; try cache_k=int4/token,cache_v=int4/token",
           rule, name);
    }
  }
  return plan;
}

std::string Name(const CachePlan& plan) {
  std::string name = Formatted("cache_k={},cache_v={}", NameOf(plan.k), NameOf(plan.v));
  if (plan.first > 0) name += Formatted(",first={}", plan.first);
  if (plan.last > 0) name += Formatted(",last={}", plan.last);
  return name;
}

}  // namespace tare
