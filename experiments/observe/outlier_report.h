// SPDX-License-Identifier: Apache-2.0
// The figures of the Differential Transformer's table 5 from one model's statistics, as JSON (tare.stats/3), and of
// several models side by side.
#pragma once

#include <string>
#include <vector>

#include "experiments/observe/full_observer.h"
#include "quant/file/sha256.h"
#include "quant/observe/statistics_set.h"

namespace tare {

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

// Observes only the table's sites.
inline constexpr const char* kOutlierSites = "attn_logits,layer_out";
FullObserver OutlierObserver(const ModelConfig& config, int64_t skip_first = kSkipFirst);

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
