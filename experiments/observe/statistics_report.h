// SPDX-License-Identifier: Apache-2.0
// Shows a statistics file to people and programs: rows of one site as JSON (tare.stats.site/1), CSV and text; an
// overview of all sites.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "quant/observe/statistics_set.h"

namespace tare {

// {"schema": "tare.stats.site/1", "site": ..,
//  "rows": [{"layer", "head", "map", "count", "absmax", "mean", "variance", "kurtosis",
//            "median", "p99", "p999", "p9999", "sqnr_db": {"int8/row.sqnr_db": ..}}]}
//
// A figure is null where it has no meaning; mean, variance and kurtosis (m4/m2^2) are of x, the others of |x|. Throws
// Error where the file has no such site or layer. sqnr_db: of formats whose error was measured.
nlohmann::ordered_json SiteJson(const StatisticsSet& set, Site site, std::optional<int> layer);
// {"schema":"tare.stats.measures/1","site":..,"rows":[{"layer","head","map","measures":{name: number or null}}]}
nlohmann::ordered_json MeasuresJson(const StatisticsSet& set, Site site, std::optional<int> layer);

enum class SiteRows { kFigures, kMeasures };
// Either of every site that the file has (there).
std::vector<nlohmann::ordered_json> AllSitesJson(const StatisticsSet& set, std::optional<int> layer, SiteRows kind);

// Rows as comma-separated values, empty where another site has a column and this one does not; and as a table.
std::string RowsCsv(std::span<const nlohmann::ordered_json> sites);
std::string RowsTable(const nlohmann::ordered_json& json);

// One line per site, its layers, heads and maps pooled: figures, and what formats lose.
std::string OverviewTable(const StatisticsSet& set);
// The latter: {site: {"int8/row.sqnr_db": ..}}.
nlohmann::ordered_json OverviewSqnrJson(const StatisticsSet& set);

}  // namespace tare
