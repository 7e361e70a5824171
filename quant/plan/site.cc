// SPDX-License-Identifier: Apache-2.0
#include "quant/plan/site.h"

namespace tare {
namespace {

// The group `weights`: projections inside layers, but for lambda's, which few models have.
constexpr bool IsGrouped(const SiteInfo& info) {
  return info.input && info.of != SiteOf::kModel && info.of != SiteOf::kLambda;
}

constexpr std::array kGroupedWeights = [] {
  std::array<Site, std::ranges::count_if(kSites, IsGrouped)> weights{};
  auto next = weights.begin();
  for (const SiteInfo& info : kSites) {
    if (IsGrouped(info)) *next++ = info.site;
  }
  return weights;
}();

constexpr std::array kGroupedInputs = [] {
  auto inputs = kGroupedWeights;
  std::ranges::transform(kGroupedWeights, inputs.begin(), InputOf);
  return inputs;
}();

}  // namespace

std::optional<Site> ParseSite(std::string_view name) {
  const auto info = std::ranges::find(kSites, name, &SiteInfo::name);
  return info == kSites.end() ? std::nullopt : std::optional(info->site);
}

std::span<const Site> ExpandSites(std::string_view name) {
  if (name == "weights") return kGroupedWeights;
  if (name == "linear_in") return kGroupedInputs;
  const auto info = std::ranges::find(kSites, name, &SiteInfo::name);
  if (info == kSites.end()) return {};
  return {&info->site, 1};
}

}  // namespace tare
