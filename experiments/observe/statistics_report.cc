// SPDX-License-Identifier: Apache-2.0
// JSON of rows, figures, SQNR; pooled sites, text cells, site JSON, CSV, a site's table, overview, larger and smaller.
#include "experiments/observe/statistics_report.h"

#include <algorithm>
#include <ranges>
#include <set>

#include "experiments/table/table.h"
#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/file/json.h"

namespace tare {
namespace {

// Rows of the site, first those of all positions; `figures` adds columns to each.
template <typename Figures>
Json Rows(const StatisticsSet& set, Site site, Figures figures) {
  Json rows = Json::array();
  for (const auto& [from, sites] : set.Both()) {
    for (const auto& [key, statistics] : sites) {
      if (key.site != site) continue;
      Json row{{"layer", AsJson(key.layer)}, {"head", AsJson(key.head)}, {"map", AsJson(key.map)}, {"from", from}};
      row.update(figures(key, statistics));
      rows.push_back(std::move(row));
    }
  }
  if (!rows.empty()) return rows;
  std::string known;
  for (const auto& [key, statistics] : set.sites) {
    const std::string name(Name(key.site));
    if (!known.ends_with(name)) known += (known.empty() ? "" : " ") + name;
  }
  FailUsage("--site {}: got no statistics of it, expected one of {}", Name(site), known);
}

Json Figures(const SiteStatistics& s) {
  const Moments moments = s.Total().Powers();
  const bool any = s.outliers.count() > 0;
  Json json{{"count", s.outliers.count()},
            {"absmax", any ? Json(s.outliers.absmax()) : Json()},
            {"mean", NumberOrNull(moments.Mean())},
            {"variance", NumberOrNull(moments.Variance())},
            {"kurtosis", NumberOrNull(moments.Kurtosis())}};
  for (const auto& [name, q] : kQuantiles) json[name] = NumberOrNull(s.outliers.Quantile(q));
  return json;
}

// "int8/row.sqnr_db": as the measures are named.
Json SqnrJson(const StatisticsSet& set, Site site, const Fold& total) {
  Json sqnr = Json::object();
  for (const auto& [format, value] : SignalToNoise(set, site, total)) sqnr[format + ".sqnr_db"] = NumberOrNull(value);
  return sqnr;
}

// A site's layers, heads and maps together, of positions from `from`. layer: of the largest value, if any.
struct PooledSite {
  Site site;
  int64_t from;
  int rows;
  std::optional<int> layer;
  SiteStatistics all;
};

std::vector<PooledSite> Pooled(const StatisticsSet& set) {
  std::vector<PooledSite> pooled;
  for (const SiteInfo& info : kSites) {
    for (const auto& [from, sites] : set.Both()) {
      PooledSite p{info.site, from, 0, {}, SiteStatistics(SumNames(info.site, set.formats).size())};
      for (const auto& [key, s] : sites) {
        if (key.site != info.site) continue;
        if (++p.rows == 1 || s.outliers.absmax() > p.all.outliers.absmax()) p.layer = key.layer;
        p.all.outliers.Merge(s.outliers);
        for (size_t i = 0; i < p.all.folds.size(); ++i) p.all.folds[i].Merge(s.folds[i]);
      }
      if (p.rows > 0) pooled.push_back(std::move(p));
    }
  }
  return pooled;
}

// Where a layer's largest value is, and how far this stretches a scale of the layer.
Json PlaceJson(Site site, const OutlierStatistics& s) {
  const Place place = s.top.Sorted().front().place;
  const float median = s.Quantile(0.5);
  return {{"head", place.head < 0 ? Json() : Json(place.head)},
          {"channel", HasChannels(site) ? Json(place.column) : Json()},
          {"median", median},
          {"max/median", NumberOrNull(s.absmax() / median)}};
}

// A figure of a site in two sets.
struct SitePair {
  Site site;
  double a, b;
};

// "8 of 26 sites, most at head_out (2.49 times), v (1.96 times)": where b is larger, or a; of equal figures the first.
std::string SidesText(std::vector<SitePair> sites, bool larger) {
  const std::string all = Counted(std::ssize(sites), "site");
  std::erase_if(sites, [&](const SitePair& s) { return larger ? s.b <= s.a : s.b >= s.a; });
  std::string text = Formatted("{} of {}", sites.size(), all);
  std::ranges::stable_sort(sites, {}, [&](const SitePair& s) { return larger ? s.a / s.b : s.b / s.a; });
  const auto twins = std::ranges::unique(sites, {}, [](const SitePair& s) { return std::pair(s.a, s.b); });
  const auto shown = std::min<size_t>(twins.begin() - sites.begin(), 3);
  for (size_t i = 0; i < shown; ++i)
    text += Formatted(", {}{} ({:.3g} times)", i == 0 ? "most at " : "", Name(sites[i].site), sites[i].b / sites[i].a);
  return text;
}

// The row with nested objects replaced by their members.
Json Flat(const Json& row) {
  Json flat = Json::object();
  for (const auto& [name, value] : row.items()) flat.update(value.is_object() ? value : Json{{name, value}});
  return flat;
}

Column FourDigits(const std::string& name) { return {.name = name, .title = name, .format = "{:.4g}", .none = "-"}; }

std::string Text(const Json& value) {
  if (value.is_null()) return "-";
  return value.is_number_float() ? Formatted("{:.4g}", value.get<double>()) : value.dump();
}

}  // namespace

void KeepLayer(StatisticsSet& set, int layer) {
  std::set<int> layers;
  for (const auto& [key, statistics] : set.sites) layers.insert(key.layer.value_or(layer));
  const auto is_other = [&](const auto& entry) { return entry.first.layer != layer; };
  std::erase_if(set.sites, is_other);
  std::erase_if(set.rest, is_other);
  layers.erase(layer);
  if (set.sites.empty())
    FailUsage("--layer {}: got no statistics of it at any site of the file, expected one of {}", layer,
              layers.empty() ? "no layer" : Listed(layers, " ", [](int one) { return Formatted("{}", one); }));
}

Json SiteJson(const StatisticsSet& set, Site site) {
  return {{"schema", "tare.stats.site/2"},
          {"site", Name(site)},
          {"rows", Rows(set, site, [&](const SiteKey&, const SiteStatistics& s) {
             Json figures = Figures(s);
             if (const Json sqnr = SqnrJson(set, site, s.Total()); !sqnr.empty()) figures["sqnr_db"] = sqnr;
             return figures;
           })}};
}

Json MeasuresJson(const StatisticsSet& set, Site site) {
  const auto measures = [&](const SiteKey& key, const SiteStatistics& s) {
    Json named = Json::object();
    for (const auto& [name, value] : AllMeasures(set, key, s)) named[name] = NumberOrNull(value);
    named["nonfinite"] = s.outliers.nonfinite;
    return Json{{"measures", named}};
  };
  return {{"schema", "tare.stats.measures/2"}, {"site", Name(site)}, {"rows", Rows(set, site, measures)}};
}

std::vector<Json> AllSitesJson(const StatisticsSet& set, decltype(SiteJson)* json_of) {
  std::vector<Json> sites;
  for (const SiteInfo& info : kSites) {
    if (std::ranges::contains(set.sites | std::views::keys, info.site, &SiteKey::site))
      sites.push_back(json_of(set, info.site));
  }
  return sites;
}

std::string RowsCsv(std::span<const Json> sites) {
  std::vector<Json> rows;
  for (const Json& site : sites) {
    for (const Json& row : site["rows"]) rows.emplace_back(Json{{"site", site["site"]}}).update(Flat(row));
  }
  return TableCsv(TableOf(std::move(rows)));
}

std::string PositionsText(std::string_view site, int64_t from) {
  const std::optional<Site> known = ParseSite(site);
  if (known && IsWeight(*known)) return "all rows";
  if (from == 0) return "all positions";
  return from == 1 ? "without position 0" : Formatted("without positions 0 to {}", from - 1);
}

std::string RowsTable(const Json& json) {
  Table table;
  std::string text;
  const std::string site = json["site"];
  for (Json row : json["rows"]) {
    const std::string positions = PositionsText(site, row["from"]);
    if (row.contains("measures")) {  // one per line
      text += Formatted("{} layer {} head {} map {}, {}\n", site, Text(row["layer"]), Text(row["head"]),
                        Text(row["map"]), positions);
      for (const auto& [name, value] : row["measures"].items())
        text += Formatted("  {:<28}{:>12}\n", name, Text(value));
      continue;
    }
    row.erase("sqnr_db");  // in the overview and among the measures
    row.erase("p9999");    // in JSON and CSV: 80 columns are full
    row.erase("from");
    if (table.rows.empty()) {
      table.columns.push_back({.name = "positions", .side = Side::kAbove});
      for (const auto& [name, value] : row.items()) table.columns.push_back(FourDigits(name));
    }
    row["positions"] = positions;
    table.rows.push_back(std::move(row));
  }
  return text + TableText(table);
}

std::string OverviewTable(const StatisticsSet& set) {
  Table figures{.columns = {Left("site", "site"), {.name = "nonfinite", .side = Side::kBelow}}},
      sqnr{.columns = {Left("site", "SQNR in dB", 12)}};
  for (const char* name : {"absmax", "layer", "head", "channel", "median", "max/median", "p999", "kurtosis"})
    figures.columns.push_back(FourDigits(name));
  for (const std::string& format : set.formats)
    sqnr.columns.push_back({.name = format + ".sqnr_db", .title = format, .format = "{:.1f}", .width = 7, .none = "-"});
  for (const auto& [site, from, rows, layer, pooled] : Pooled(set)) {
    const Json name = from == 0 ? std::string(Name(site)) : Formatted("  from {}", from);
    Json& row = figures.rows.emplace_back(Figures(pooled));
    row.update({{"site", name}, {"layer", AsJson(layer)}});
    if (const uint64_t bad = pooled.outliers.nonfinite; bad > 0) row["nonfinite"] = Formatted("nonfinite: {}", bad);
    const OutlierStatistics of_layer = OutliersAt(from == 0 ? set.sites : set.rest, site, layer);
    if (of_layer.top.size() > 0) row.update(PlaceJson(site, of_layer));
    Json losses = SqnrJson(set, site, pooled.Total());
    if (losses.empty()) continue;
    losses["site"] = name;
    sqnr.rows.push_back(std::move(losses));
  }
  return TableText(figures) + (set.formats.empty() ? "" : "\n" + TableText(sqnr));
}

std::vector<std::string> SideSentences(const StatisticsSet& a, const std::string& name_a, const StatisticsSet& b,
                                       const std::string& name_b) {
  constexpr std::pair<const char*, double (*)(const SiteStatistics&)> kFigures[] = {
      {"largest magnitude", [](const SiteStatistics& s) { return double{s.outliers.absmax()}; }},
      {"kurtosis", [](const SiteStatistics& s) { return static_cast<double>(s.Total().Powers().Kurtosis()); }}};
  const std::vector<PooledSite> of_a = Pooled(a), of_b = Pooled(b);
  std::vector<std::string> sentences;
  for (const auto& [words, figure] : kFigures) {
    std::vector<SitePair> sites;
    for (const PooledSite& p : of_a) {
      const PooledSite* const other = FindWhere(of_b, [&](const PooledSite& q) { return q.site == p.site; });
      if (p.from != 0 || other == nullptr) continue;  // all positions come first
      const SitePair pair{p.site, figure(p.all), figure(other->all)};
      if (pair.a > 0 && pair.b > 0) sites.push_back(pair);
    }
    if (sites.empty()) continue;
    sentences.push_back(Formatted("The {} of {} is above that of {} at {}; it is below at {}.", words, name_b, name_a,
                                  SidesText(sites, true), SidesText(sites, false)));
  }
  return sentences;
}

Json OverviewSqnrJson(const StatisticsSet& set, int64_t from) {
  Json all = Json::object();
  for (const auto& [site, of, rows, layer, pooled] : Pooled(set)) {
    if (of != from) continue;
    if (const Json sqnr = SqnrJson(set, site, pooled.Total()); !sqnr.empty()) all[std::string(Name(site))] = sqnr;
  }
  return all;
}

}  // namespace tare
