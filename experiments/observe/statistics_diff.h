// SPDX-License-Identifier: Apache-2.0
// Differences between two statistics files (two models or two texts): each measure per site and layer (heads and maps
// pooled), of all positions and of the rest, with a percentile bootstrap over groups of sequences
// (SiteStatistics::kFolds, or single sequences if there are no more). Files of the same sequences are resampled
// together, others separately. Maxima have no interval.
//
// Each interval is for its own row. Significance covers all rows: p is Student's t of the difference over its bootstrap
// error, with one degree of freedom less than there are groups; p_holm is Holm's correction of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "quant/observe/statistics_set.h"

namespace tare {

struct DiffOptions {
  std::optional<Site> site;  // empty: all sites that both have
  std::optional<int> layer;
  int draws = 1000;
  uint64_t seed = 0;
};

// {"schema": "tare.stats.diff/2", "a": {job}, "b": {job}, "paired", .., "draws", .., "level": 0.95,
//  "rows": [{"site", "layer", "from", "measure", "a", "b", "difference", "low", "high", "p", "p_holm"}],
//  "comparisons": rows with a p}
//
// difference is b - a; an undefined figure is null.
nlohmann::ordered_json DiffJson(const StatisticsSet& a, const StatisticsSet& b, const DiffOptions& options);
// Whether every figure is the same in both.
bool NothingDiffers(const nlohmann::ordered_json& diff);
// Marks rows with p_holm below 0.05. Of more rows than `most` the largest, those with a mark first.
std::string DiffTable(const nlohmann::ordered_json& diff, std::optional<size_t> most = std::nullopt);

}  // namespace tare
