// SPDX-License-Identifier: Apache-2.0
// A sum of statistics by its name.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "quant/observe/statistics_set.h"

namespace tare {

// Its index; nullopt if the site has none.
inline std::optional<size_t> FindSum(const StatisticsSet& set, Site site, const std::string& name) {
  const std::vector<std::string> names = set.Sums(site);
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? std::nullopt : std::optional(static_cast<size_t>(found - names.begin()));
}

}  // namespace tare
