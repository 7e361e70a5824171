// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/outlier_report.h"

#include "experiments/model/sites_of_model.h"
#include "experiments/text/columns.h"
#include "experiments/text/csv.h"
#include "quant/base/formatted.h"
#include "quant/file/json.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTops[] = {1, 2, 3, 10, 100};

Json Figures(const OutlierStatistics& s) {
  Json json{
      {"count", s.count()}, {"absmax", s.absmax()}, {"median", s.count() == 0 ? Json() : Json(s.magnitudes.Median())}};
  const std::vector<TopValue> top = s.top.Sorted();
  for (const int k : kTops) {
    json[Formatted("top{}", k)] = top.size() < static_cast<size_t>(k) ? Json() : Json(std::abs(top[k - 1].value));
  }
  json["nonfinite"] = s.nonfinite;
  return json;
}

// The places of the largest values: what a reader looks up in the text.
Json Places(const OutlierStatistics& s, const char* row, const char* column) {
  Json list = Json::array();
  for (const TopValue& t : s.top.Sorted()) {
    Json entry{{"value", t.value}, {"sequence", t.place.sequence}, {"layer", t.place.layer}};
    if (t.place.head >= 0) entry["head"] = t.place.head;
    entry[row] = t.place.row;
    entry[column] = t.place.column;
    list.push_back(entry);
  }
  return list;
}

Json MapsJson(const OutlierFigures& outliers, std::optional<int> layer) {
  Json maps = Json::array();
  for (const int map : {1, 2}) {
    Json figures{{"map", map}};
    figures.update(Figures(outliers.AttentionLogits(layer, {}, map)));
    maps.push_back(figures);
  }
  return maps;
}

Json LayerJson(const OutlierFigures& outliers, const ModelConfig& c, int layer) {
  Json json{{"layer", layer},
            {"attn_logits", Figures(outliers.AttentionLogits(layer))},
            {"layer_out", Figures(outliers.HiddenStates(layer))}};
  const std::vector<OutputHead> table = HeadTable(c);
  const bool differential = table.front().Differential();
  if (differential) json["maps"] = MapsJson(outliers, layer);
  json["heads"] = Json::array();
  for (int head = 0; head < c.heads; ++head) {
    Json figures{{"head", head}};
    if (differential) figures["map"] = MapOf(table, Site::kAttnLogits, head).value_or(0);
    figures.update(Figures(outliers.AttentionLogits(layer, head)));
    json["heads"].push_back(figures);
  }
  return json;
}

struct Row {
  std::string site, model;
  const Json* figures;
};

std::vector<Row> Rows(const std::vector<Json>& models) {
  std::vector<Row> rows;
  for (const Json& m : models) {
    const auto name = m["model"].get<std::string>();
    rows.push_back({"attn_logits", name, &m["attn_logits"]});
    if (!m.contains("maps")) continue;
    for (const Json& map : m["maps"]) rows.push_back({Formatted("  map {}", map["map"].get<int>()), name, &map});
  }
  for (const Json& m : models) rows.push_back({"layer_out", m["model"].get<std::string>(), &m["layer_out"]});
  return rows;
}

std::string Number(const Json& value, const char* none) {
  return value.is_null() ? none : Formatted("{:.4g}", value.get<double>());
}

}  // namespace

OutlierStatistics OutlierFigures::AttentionLogits(std::optional<int> layer, std::optional<int> head,
                                                  std::optional<int> map) const {
  OutlierStatistics all;
  for (const auto& [key, s] : set_.sites) {
    if (key.site == Site::kAttnLogits && (!layer || layer == key.layer) && (!head || head == key.head) &&
        (!map || map == key.map))
      all.Merge(s.outliers);
  }
  return all;
}

OutlierStatistics OutlierFigures::HiddenStates(std::optional<int> layer) const {
  OutlierStatistics all;
  for (const auto& [key, s] : set_.sites) {
    if (key.site == Site::kLayerOut && (!layer || layer == key.layer)) all.Merge(s.outliers);
  }
  return all;
}

Json OutlierJson(const OutlierFigures& outliers, const ModelConfig& c, const std::string& model, int64_t tokens) {
  const OutlierStatistics logits = outliers.AttentionLogits(), hidden = outliers.HiddenStates();
  Json json{{"schema", "tare.stats/2"},
            {"model", model},
            {"tokens", tokens},
            {"attn_logits", Figures(logits)},
            {"layer_out", Figures(hidden)}};
  if (Maps(c) == 2) json["maps"] = MapsJson(outliers, {});
  json["layers"] = Json::array();
  for (int layer = 0; layer < c.layers; ++layer) json["layers"].push_back(LayerJson(outliers, c, layer));
  json["top"] = {{"attn_logits", Places(logits, "query", "key")}, {"layer_out", Places(hidden, "token", "channel")}};
  return json;
}

FullObserver OutlierObserver(const ModelConfig& config) {
  return FullObserver(SiteSelection::Parse("attn_logits,layer_out", ModelSitesOf(config)), {});
}

Json MeasureOutliers(Model& model, const TokenInput& input, const std::vector<ScoredSequence>& sequences,
                     const Progress& progress) {
  FullObserver observer = OutlierObserver(model.config());
  SiteVisitor* const visitors[] = {&observer};
  int64_t positions = 0;
  ForwardAll(model, visitors, sequences, progress, [&](const TokenBatch& batch, size_t) { positions += batch.Rows(); });
  const int64_t tokens = positions - (input.bos ? std::ssize(sequences) : 0);
  StatisticsSet set;
  set.sites = observer.Take();
  return OutlierJson(OutlierFigures(set), model.config(), model.Name(), tokens);
}

std::string OutlierTable(const std::vector<Json>& models) {
  std::vector<std::vector<std::string>> lines{
      {"|x|", "model", "top-1", "top-2", "top-3", "top-10", "top-100", "median"}};
  for (const Row& row : Rows(models)) {
    std::vector<std::string>& line = lines.emplace_back(std::vector<std::string>{row.site, row.model});
    for (const int k : kTops) line.push_back(Number((*row.figures)[Formatted("top{}", k)], "-"));
    line.push_back(Number((*row.figures)["median"], "-"));
  }
  return InColumns(lines, 2);
}

std::string OutlierCsv(const std::vector<Json>& models) {
  std::string text = "model,site,layer,head,map,count,absmax,top1,top2,top3,top10,top100,median\n";
  const auto add = [&](const std::string& model, const char* site, const std::string& layer, const std::string& head,
                       const std::string& map, const Json& f) {
    text += Formatted("{},{},{},{},{},{},{}", CsvField(model), site, layer, head, map, f["count"].dump(),
                      f["absmax"].dump());
    for (const int k : kTops) text += "," + (f[Formatted("top{}", k)].is_null() ? "" : f[Formatted("top{}", k)].dump());
    text += "," + (f["median"].is_null() ? "" : f["median"].dump()) + "\n";
  };
  for (const Json& m : models) {
    const auto name = m["model"].get<std::string>();
    add(name, "attn_logits", "", "", "", m["attn_logits"]);
    if (m.contains("maps")) {
      for (const Json& map : m["maps"]) add(name, "attn_logits", "", "", map["map"].dump(), map);
    }
    add(name, "layer_out", "", "", "", m["layer_out"]);
    for (const Json& layer : m["layers"]) {
      const std::string number = layer["layer"].dump();
      add(name, "attn_logits", number, "", "", layer["attn_logits"]);
      for (const Json& head : layer["heads"]) {
        add(name, "attn_logits", number, head["head"].dump(), head.contains("map") ? head["map"].dump() : "", head);
      }
      add(name, "layer_out", number, "", "", layer["layer_out"]);
    }
  }
  return text;
}

}  // namespace tare
