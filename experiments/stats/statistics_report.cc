// SPDX-License-Identifier: Apache-2.0
#include "experiments/stats/statistics_report.h"

#include <cmath>

#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/json.h"
#include "quant/observe/measures.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json KeyJson(const SiteKey& key) {
  const auto index = [](const std::optional<int>& i) { return i ? Json(*i) : Json(); };
  return {{"layer", index(key.layer)}, {"head", index(key.head)}, {"map", index(key.map)}};
}

// Rows of the site and layer; `figures` adds to each what it has.
template <typename Figures>
Json Rows(const StatisticsSet& set, Site site, std::optional<int> layer, Figures figures) {
  Json rows = Json::array();
  for (const auto& [key, statistics] : set.sites) {
    if (key.site != site || (layer && layer != key.layer)) continue;
    Json row = KeyJson(key);
    row.update(figures(key, statistics));
    rows.push_back(std::move(row));
  }
  if (!rows.empty()) return rows;
  std::string known;
  for (const auto& [key, statistics] : set.sites) {
    const std::string name(Name(key.site));
    if (!known.ends_with(name)) known += (known.empty() ? "" : " ") + name;
  }
  if (layer) Fail("--site {} --layer {}: got nothing of these; the file has {}", Name(site), *layer, known);
  Fail("--site {}: got nothing of it, expected one of {}", Name(site), known);
}

Json Figures(const SiteStatistics& s) {
  const Moments moments = s.Total().Powers();
  const bool any = s.outliers.count() > 0;
  Json json{{"count", s.outliers.count()},
            {"absmax", any ? Json(s.outliers.absmax()) : Json()},
            {"mean", NumberOrNull(moments.Mean())},
            {"variance", NumberOrNull(moments.Variance())},
            {"kurtosis", NumberOrNull(moments.Kurtosis())}};
  for (const auto& [name, q] : {std::pair{"median", 0.5}, {"p99", 0.99}, {"p999", 0.999}, {"p9999", 0.9999}})
    json[name] = NumberOrNull(s.outliers.magnitudes.Quantile(q));
  return json;
}

// The figures of a row, by name.
std::vector<std::pair<std::string, Json>> Cells(const Json& row) {
  std::vector<std::pair<std::string, Json>> cells;
  for (const auto& [name, value] : row.items()) {
    if (!value.is_object()) {
      cells.emplace_back(name, value);
      continue;
    }
    for (const auto& [measure, number] : value.items()) cells.emplace_back(measure, number);
  }
  return cells;
}

std::string Text(const Json& value) {
  if (value.is_null()) return "-";
  return value.is_number_float() ? Formatted("{:.4g}", value.get<double>()) : value.dump();
}

}  // namespace

Json SiteJson(const StatisticsSet& set, Site site, std::optional<int> layer) {
  return {{"schema", "tare.stats.site/1"},
          {"site", Name(site)},
          {"rows", Rows(set, site, layer, [](const SiteKey&, const SiteStatistics& s) { return Figures(s); })}};
}

Json MeasuresJson(const StatisticsSet& set, Site site, std::optional<int> layer) {
  const auto measures = [&](const SiteKey& key, const SiteStatistics& s) {
    Json named = Json::object();
    for (const auto& [name, value] : AllMeasures(set, key)) named[name] = NumberOrNull(value);
    named["nonfinite"] = s.outliers.nonfinite;
    return Json{{"measures", named}};
  };
  return {{"schema", "tare.stats.measures/1"}, {"site", Name(site)}, {"rows", Rows(set, site, layer, measures)}};
}

std::string RowsCsv(const Json& json) {
  std::string text;
  const auto site = json["site"].get<std::string>();
  for (const Json& row : json["rows"]) {
    const auto cells = Cells(row);
    if (text.empty()) {
      text = "site";
      for (const auto& [name, value] : cells) text += "," + name;
      text += "\n";
    }
    text += site;
    for (const auto& [name, value] : cells) text += "," + (value.is_null() ? "" : value.dump());
    text += "\n";
  }
  return text;
}

std::string RowsTable(const Json& json) {
  std::string text;
  for (const Json& row : json["rows"]) {
    const auto cells = Cells(row);
    if (cells.size() > 16) {  // measures: one per line
      text += Formatted("{} layer {} head {} map {}\n", json["site"].get<std::string>(), Text(row["layer"]),
                        Text(row["head"]), Text(row["map"]));
      for (size_t i = 3; i < cells.size(); ++i)
        text += Formatted("  {:<28}{:>12}\n", cells[i].first, Text(cells[i].second));
      continue;
    }
    const auto width = [](const std::string& name) {
      return name == "layer" || name == "head" || name == "map" ? 6 : 12;
    };
    if (text.empty()) {
      for (const auto& [name, value] : cells) text += Formatted("{:>{}}", name, width(name));
      text += "\n";
    }
    for (const auto& [name, value] : cells) text += Formatted("{:>{}}", Text(value), width(name));
    text += "\n";
  }
  return text;
}

std::string OverviewTable(const StatisticsSet& set) {
  std::string text = Formatted("{:<14}{:>6}{:>14}{:>11}{:>11}{:>11}{:>11}{:>11}{:>10}\n", "site", "rows", "count",
                               "absmax", "median", "p999", "variance", "kurtosis", "nonfinite");
  for (const SiteInfo& info : kSites) {
    SiteStatistics pooled(SumNames(info.site, set.formats).size());
    int rows = 0;
    for (const auto& [key, s] : set.sites) {
      if (key.site != info.site) continue;
      ++rows;
      pooled.outliers.Merge(s.outliers);
      for (size_t i = 0; i < pooled.folds.size(); ++i) pooled.folds[i].Merge(s.folds[i]);
    }
    if (rows == 0) continue;
    const Json f = Figures(pooled);
    text += Formatted("{:<14}{:>6}{:>14}{:>11}{:>11}{:>11}{:>11}{:>11}{:>10}\n", info.name, rows, Text(f["count"]),
                      Text(f["absmax"]), Text(f["median"]), Text(f["p999"]), Text(f["variance"]), Text(f["kurtosis"]),
                      pooled.outliers.nonfinite);
  }
  return text;
}

OutlierStatistics StatisticsFigures::AttentionLogits(std::optional<int> layer, std::optional<int> head,
                                                     std::optional<int> map) const {
  OutlierStatistics all;
  for (const auto& [key, s] : set_.sites) {
    if (key.site == Site::kAttnLogits && (!layer || layer == key.layer) && (!head || head == key.head) &&
        (!map || map == key.map))
      all.Merge(s.outliers);
  }
  return all;
}

OutlierStatistics StatisticsFigures::HiddenStates(std::optional<int> layer) const {
  OutlierStatistics all;
  for (const auto& [key, s] : set_.sites) {
    if (key.site == Site::kLayerOut && (!layer || layer == key.layer)) all.Merge(s.outliers);
  }
  return all;
}

}  // namespace tare
