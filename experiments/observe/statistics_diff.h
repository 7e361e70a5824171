// SPDX-License-Identifier: Apache-2.0
// Differences between two statistics files, two models or two texts: each measure per site and layer (heads and maps
// pooled), with a percentile bootstrap over groups of sequences (SiteStatistics::kFolds; each sequence its own where
// there are no more). Files of the same sequences are resampled together, others apart. Maxima have no interval.
//
// Each interval applies to its own row. Significance takes all rows together: p of Student's t, the difference over its
// bootstrap error with a degree of freedom less than there are groups, and Holm's p of that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "quant/observe/statistics_set.h"

namespace tare {

struct DiffOptions {
  std::optional<Site> site;  // nothing: all that both have
  std::optional<int> layer;
  int draws = 1000;
  uint64_t seed = 0;
};

// {"schema": "tare.stats.diff/1", "a": {job}, "b": {job}, "paired", .., "draws", .., "level": 0.95,
//  "rows": [{"site", "layer", "measure", "a", "b", "difference", "low", "high", "p", "p_holm"}],
//  "comparisons": rows with a p}
//
// difference is b - a; a figure is null where it has no meaning.
nlohmann::ordered_json DiffJson(const StatisticsSet& a, const StatisticsSet& b, const DiffOptions& options);
// Rows with p_holm below 0.05 carry a mark.
std::string DiffTable(const nlohmann::ordered_json& diff);

}  // namespace tare
