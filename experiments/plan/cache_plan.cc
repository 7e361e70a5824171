// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/cache_plan.h"

#include <charconv>
#include <ranges>

#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

CacheFormat FormatOf(std::string_view rule, std::string_view text) {
  for (const CacheFormat format :
       {CacheFormat::kF32, CacheFormat::kBf16, CacheFormat::kInt8, CacheFormat::kInt6, CacheFormat::kInt4}) {
    const std::string name = Name(format);
    if (text == (HasCodes(format) ? name + "/token" : name)) return format;
  }
  Fail("cache, '{}': got '{}', expected f32, bf16, int8/token, int6/token or int4/token", rule, text);
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
      plan.k = FormatOf(rule, value);
    } else if (name == "cache_v") {
      plan.v = FormatOf(rule, value);
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
  const auto format = [](CacheFormat f) { return std::string(Name(f)) + (HasCodes(f) ? "/token" : ""); };
  std::string name = Formatted("cache_k={},cache_v={}", format(plan.k), format(plan.v));
  if (plan.first > 0) name += Formatted(",first={}", plan.first);
  if (plan.last > 0) name += Formatted(",last={}", plan.last);
  return name;
}

}  // namespace tare
