// SPDX-License-Identifier: Apache-2.0
// Shows a statistics file: rows of one site as JSON (tare.stats.site/2), CSV and text, and an overview of all sites;
// the differences of two files (statistics_diff.cc); and outliers (outlier_report.cc).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "quant/observe/statistics_set.h"

namespace tare {

struct ModelConfig;
struct RecordKind;

// {"schema": "tare.stats.site/2", "site": ..,
//  "rows": [{"layer", "head", "map", "from", "count", "absmax", "mean", "variance", "kurtosis",
//            "median", "p99", "p999", "p9999", "sqnr_db": {"int8/row.sqnr_db": ..}}]}
//
// from: the first position of a sequence that counts; after the rows from 0 come those of the rest. Weights have only
// the former. An undefined figure is null; mean, variance and kurtosis (m4/m2^2) are of x, the others of |x|. sqnr_db:
// of formats whose error was measured. Throws Error if the set has no such site.
nlohmann::ordered_json SiteJson(const StatisticsSet& set, Site site);
// {"schema":"tare.stats.measures/2","site":..,
//  "rows":[{"layer","head","map","from","measures":{name: number or null}}]}
nlohmann::ordered_json MeasuresJson(const StatisticsSet& set, Site site);

// SiteJson or MeasuresJson of every site.
std::vector<nlohmann::ordered_json> AllSitesJson(const StatisticsSet& set, decltype(SiteJson)* json_of);

// Removes the other layers, and what is outside the layers. Throws Error if nothing is left.
void KeepLayer(StatisticsSet& set, int layer);

// Rows as comma-separated values, empty where a site lacks another site's column; and as a table.
std::string RowsCsv(std::span<const nlohmann::ordered_json> sites);
std::string RowsTable(const nlohmann::ordered_json& json);

// "all positions", "without position 0", "without positions 0 to 3"; "all rows" of weights.
std::string PositionsText(std::string_view site, int64_t from);

// A line per site, and of its rest, layers, heads and maps pooled: figures, the largest value's layer, formats' SNR.
std::string OverviewTable(const StatisticsSet& set);
// The ratios alone, of all positions (from 0) or of the rest: {site: {"int8/row.sqnr_db": ..}}.
nlohmann::ordered_json OverviewSqnrJson(const StatisticsSet& set, int64_t from);

// Differences between two statistics files (two models or texts): each measure per site and layer (heads and maps
// pooled), of all positions and the rest, with a percentile bootstrap over groups of sequences (SiteStatistics::kFolds,
// or single ones if no more). Files of the same sequences are resampled together. Maxima have no interval.
//
// Each interval is for its own row. Significance covers all rows: p is Student's t of the difference over its bootstrap
// error, with one degree of freedom less than there are groups; p_holm is Holm's correction of it.

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
bool NothingDiffers(const nlohmann::ordered_json& diff);
// Marks rows with p_holm below 0.05. Of more rows than `most` the largest, those with a mark first.
std::string DiffTable(const nlohmann::ordered_json& diff, std::optional<size_t> most = std::nullopt);

// "The largest magnitude of b is above that of a at 9 of 31 sites, most at v (1.94 times); it is below at 22 .." and so
// of kurtosis: of all positions, with layers, heads and maps together, at the sites that both have.
std::vector<std::string> SideSentences(const StatisticsSet& a, const std::string& name_a, const StatisticsSet& b,
                                       const std::string& name_b);

// Figures of the Differential Transformer's table 5 as JSON (tare.stats/3), and of several models, of these sites.
inline constexpr const char* kOutlierSites = "attn_logits,layer_out";

// The outliers of a site, merged over layers, heads or maps left empty; of all positions or of the rest.
OutlierStatistics OutliersAt(const std::map<SiteKey, SiteStatistics>& sites, Site site, std::optional<int> layer = {},
                             std::optional<int> head = {}, std::optional<int> map = {});

// {"schema": "tare.stats/3", "model", .., "tokens": N,
//  "from": 0,
//  "attn_logits": {"count", "absmax", "median", "top1", ..},
//  "layer_out": {..},
//  "maps": [..],
//  "kinds": [{"kind": "window", "layers": [0, 2], "count", ..}],
//  "layers": [{"layer", "attn_logits", "layer_out", "heads": [{"head", "map", ..}], "maps": [..]}],
//  "top": {..},
//  "rest": {"from": 1, "attn_logits", "layer_out", "maps", "layers", "top"}}
//
// from: the first position of a sequence that counts; without a rest, "rest" is missing. topK is the K-th largest |x|,
// null if there were fewer values, as the other figures of none. kinds: attention logits by what the layers' queries
// see (window, full, shared; no rotary), where layers differ.
nlohmann::ordered_json OutlierJson(const StatisticsSet& set, const ModelConfig& config, const std::string& model);

// A line of outliers.jsonl: a model's figures, and the key of what they were measured on.
std::string OutlierLine(const nlohmann::ordered_json& key, const nlohmann::ordered_json& figures);
// The kind of these lines: records with "key" and "figures".
RecordKind OutlierRecords();

// The table for people, and as comma-separated values: a row per model and site, per map of a differential model, and
// in the table per kind of attention; all positions first, then from position N on. OutlierLegend explains the table.
std::string OutlierTable(const std::vector<nlohmann::ordered_json>& models);
std::string OutlierLegend(const std::vector<nlohmann::ordered_json>& models);
std::string OutlierCsv(const std::vector<nlohmann::ordered_json>& models);

}  // namespace tare
