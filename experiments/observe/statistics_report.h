// SPDX-License-Identifier: Apache-2.0
// Shows a statistics file: rows of one site as JSON (tare.stats.site/2), CSV and text, and an overview of all sites.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "quant/observe/statistics_set.h"

namespace tare {

// {"schema": "tare.stats.site/2", "site": ..,
//  "rows": [{"layer", "head", "map", "from", "count", "absmax", "mean", "variance", "kurtosis",
//            "median", "p99", "p999", "p9999", "sqnr_db": {"int8/row.sqnr_db": ..}}]}
//
// from: the first position of a sequence that counts; after the rows from 0 come those of the rest. Weights have only
// the former. An undefined figure is null; mean, variance and kurtosis (m4/m2^2) are of x, the others of |x|. sqnr_db:
// of formats whose error was measured. Throws Error if the file has no such site or layer.
nlohmann::ordered_json SiteJson(const StatisticsSet& set, Site site, std::optional<int> layer);
// {"schema":"tare.stats.measures/2","site":..,
//  "rows":[{"layer","head","map","from","measures":{name: number or null}}]}
nlohmann::ordered_json MeasuresJson(const StatisticsSet& set, Site site, std::optional<int> layer);

enum class SiteRows { kFigures, kMeasures };
// The same for every site of the file, or for those with the layer.
std::vector<nlohmann::ordered_json> AllSitesJson(const StatisticsSet& set, std::optional<int> layer, SiteRows kind);

// Rows as comma-separated values, empty where a site lacks another site's column; and as a table.
std::string RowsCsv(std::span<const nlohmann::ordered_json> sites);
std::string RowsTable(const nlohmann::ordered_json& json);

// "all positions", "without position 0", "without positions 0 to 3"; "all rows" of weights.
std::string PositionsText(std::string_view site, int64_t from);

// One line per site, and one of its rest, with layers, heads and maps pooled: figures, and the signal-to-noise ratio of
// each format.
std::string OverviewTable(const StatisticsSet& set);
// The ratios alone, of all positions (from 0) or of the rest: {site: {"int8/row.sqnr_db": ..}}.
nlohmann::ordered_json OverviewSqnrJson(const StatisticsSet& set, int64_t from);

}  // namespace tare
