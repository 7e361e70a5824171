// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/statistics_report.h"

#include <algorithm>
#include <cmath>

#include "experiments/text/columns.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/json.h"
#include "quant/observe/measures.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

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

// "int8/row.sqnr_db": as the measures are named.
Json SqnrJson(const StatisticsSet& set, Site site, const Fold& total) {
  Json sqnr = Json::object();
  for (const auto& [format, value] : SignalToNoise(set, site, total)) sqnr[format + ".sqnr_db"] = NumberOrNull(value);
  return sqnr;
}

bool HasRows(const StatisticsSet& set, Site site, std::optional<int> layer) {
  return std::ranges::any_of(
      set.sites, [&](const auto& entry) { return entry.first.site == site && (!layer || layer == entry.first.layer); });
}

// A site with its layers, heads and maps together.
struct PooledSite {
  Site site;
  int rows;
  SiteStatistics all;
};

std::vector<PooledSite> Pooled(const StatisticsSet& set) {
  std::vector<PooledSite> pooled;
  for (const SiteInfo& info : kSites) {
    if (!HasRows(set, info.site, {})) continue;
    PooledSite& p = pooled.emplace_back(info.site, 0, SiteStatistics(SumNames(info.site, set.formats).size()));
    for (const auto& [key, s] : set.sites) {
      if (key.site != info.site) continue;
      ++p.rows;
      p.all.outliers.Merge(s.outliers);
      for (size_t i = 0; i < p.all.folds.size(); ++i) p.all.folds[i].Merge(s.folds[i]);
    }
  }
  return pooled;
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

Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json SiteJson(const StatisticsSet& set, Site site, std::optional<int> layer) {
  return {{"schema", "tare.stats.site/1"},
          {"site", Name(site)},
          {"rows", Rows(set, site, layer, [&](const SiteKey&, const SiteStatistics& s) {
             Json figures = Figures(s);
             if (const Json sqnr = SqnrJson(set, site, s.Total()); !sqnr.empty()) figures["sqnr_db"] = sqnr;
             return figures;
           })}};
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

std::vector<Json> AllSitesJson(const StatisticsSet& set, std::optional<int> layer, RowsOf kind) {
  std::vector<Json> sites;
  for (const SiteInfo& info : kSites) {
    if (!HasRows(set, info.site, layer)) continue;
    sites.push_back(kind == RowsOf::kFigures ? SiteJson(set, info.site, layer) : MeasuresJson(set, info.site, layer));
  }
  if (sites.empty()) Fail("--layer {}: got nothing of it at any site of the file", layer.value_or(-1));
  return sites;
}

std::string RowsCsv(std::span<const Json> sites) {
  std::vector<std::string> columns;
  for (const Json& site : sites) {
    for (const auto& [name, value] : Cells(site["rows"][0])) {
      if (!std::ranges::contains(columns, name)) columns.push_back(name);
    }
  }
  std::string text = "site";
  for (const std::string& name : columns) text += "," + name;
  for (const Json& site : sites) {
    for (const Json& row : site["rows"]) {
      const auto cells = Cells(row);
      text += "\n" + site["site"].get<std::string>();
      for (const std::string& name : columns) {
        const auto cell = std::ranges::find(cells, name, &std::pair<std::string, Json>::first);
        text += "," + (cell == cells.end() || cell->second.is_null() ? "" : cell->second.dump());
      }
    }
  }
  return text + "\n";
}

std::string RowsTable(const Json& json) {
  std::string text;
  std::vector<std::vector<std::string>> lines;
  for (Json row : json["rows"]) {
    row.erase("sqnr_db");  // in the overview and among the measures
    row.erase("p9999");    // in JSON and CSV: 80 columns are full
    const auto cells = Cells(row);
    if (row.contains("measures")) {  // one per line
      text += Formatted("{} layer {} head {} map {}\n", json["site"].get<std::string>(), Text(row["layer"]),
                        Text(row["head"]), Text(row["map"]));
      for (size_t i = 3; i < cells.size(); ++i)
        text += Formatted("  {:<28}{:>12}\n", cells[i].first, Text(cells[i].second));
      continue;
    }
    if (lines.empty()) {
      lines.emplace_back();
      for (const auto& [name, value] : cells) lines.back().push_back(name);
    }
    lines.emplace_back();
    for (const auto& [name, value] : cells) lines.back().push_back(Text(value));
  }
  return text + InColumns(lines, 0);
}

std::string OverviewTable(const StatisticsSet& set) {
  std::vector<std::vector<std::string>> lines{
      {"site", "rows", "count", "absmax", "median", "p999", "variance", "kurtosis", "nonfinite"}};
  for (const auto& [site, rows, pooled] : Pooled(set)) {
    const Json f = Figures(pooled);
    lines.push_back({std::string(Name(site)), Formatted("{}", rows), Text(f["count"]), Text(f["absmax"]),
                     Text(f["median"]), Text(f["p999"]), Text(f["variance"]), Text(f["kurtosis"]),
                     Formatted("{}", pooled.outliers.nonfinite)});
  }
  std::string text = InColumns(lines, 1);
  if (set.formats.empty()) return text;
  const auto width = [](const std::string& format) { return std::max<size_t>(format.size() + 2, 9); };
  text += Formatted("\n{:<14}", "SQNR in dB");
  for (const std::string& format : set.formats) text += Formatted("{:>{}}", format, width(format));
  const Json all = OverviewSqnrJson(set);
  for (const auto& [site, sqnr] : all.items()) {
    text += Formatted("\n{:<14}", site);
    for (const std::string& format : set.formats) {
      const auto found = sqnr.find(format + ".sqnr_db");
      text +=
          Formatted("{:>{}}", found == sqnr.end() || found->is_null() ? "-" : Formatted("{:.1f}", found->get<double>()),
                    width(format));
    }
  }
  return text + "\n";
}

Json OverviewSqnrJson(const StatisticsSet& set) {
  Json all = Json::object();
  for (const auto& [site, rows, pooled] : Pooled(set)) {
    if (const Json sqnr = SqnrJson(set, site, pooled.Total()); !sqnr.empty()) all[std::string(Name(site))] = sqnr;
  }
  return all;
}

}  // namespace tare
