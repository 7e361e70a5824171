// SPDX-License-Identifier: Apache-2.0
#include "quant/plan/site.h"

#include <algorithm>

namespace tare {
namespace {

constexpr bool InOrder() {
  for (size_t i = 0; i < kSites.size(); ++i) {
    if (kSites[i].site != static_cast<Site>(i)) return false;
  }
  return true;
}
static_assert(InOrder(), "Name indexes kSites by the enum");

constexpr std::array<Site, kSites.size()> kAll = [] {
  std::array<Site, kSites.size()> all{};
  for (size_t i = 0; i < all.size(); ++i) all[i] = kSites[i].site;
  return all;
}();

// The sites first .. last of the enum.
std::span<const Site> Sites(Site first, Site last) {
  const size_t begin = static_cast<size_t>(first);
  return std::span(kAll).subspan(begin, static_cast<size_t>(last) - begin + 1);
}

}  // namespace

std::optional<Site> ParseSite(std::string_view name) {
  const auto info = std::ranges::find(kSites, name, &SiteInfo::name);
  return info == kSites.end() ? std::nullopt : std::optional(info->site);
}

std::span<const Site> ExpandSites(std::string_view name) {
  if (name == "weights") return Sites(Site::kQProjW, Site::kExpertsDownW);
  if (name == "linear_in") return Sites(Site::kQProjIn, Site::kExpertsDownIn);
  if (const std::optional<Site> site = ParseSite(name)) return Sites(*site, *site);
  return {};
}

}  // namespace tare
