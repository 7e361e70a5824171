// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/outlier_report.h"

#include "experiments/model/sites_of_model.h"
#include "experiments/table/table.h"
#include "quant/base/formatted.h"
#include "quant/file/json_value.h"

namespace tare {
namespace {

constexpr const char* kOutlierSchema = "tare.outliers/1";
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

// The places of the largest values, for looking them up in the text.
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

// The columns of figures, as text and CSV have them.
void AddFigureColumns(std::vector<Column>& columns) {
  const auto add = [&](const std::string& name, const std::string& title) {
    columns.push_back({.name = name, .title = title, .format = "{:.4g}", .none = "-"});
  };
  for (const int k : kTops) add(Formatted("top{}", k), Formatted("top-{}", k));
  add("median", "median");
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

std::string OutlierLine(const Json& key, const Json& figures) {
  return CheckedLine({{"schema", kOutlierSchema}, {"key", key}, {"figures", figures}});
}

RecordKind OutlierRecords() {
  const auto is_record = [](const Json& line) { return line.contains("key") && line.contains("figures"); };
  return {.schema = kOutlierSchema,
          .what = "the outliers of a model",
          .is_record = is_record,
          .is_older = [=](const Json& line) { return is_record(line) && !line.contains("schema"); }};
}

std::string OutlierTable(const std::vector<Json>& models) {
  Table table{.columns = {{.name = "site", .title = "|x|", .side = Side::kLeft},
                          {.name = "model", .title = "model", .side = Side::kLeft}}};
  AddFigureColumns(table.columns);
  const auto add = [&](const std::string& site, const Json& model, const Json& figures) {
    table.rows.push_back(figures);
    table.rows.back().update({{"site", site}, {"model", model["model"]}});
  };
  for (const Json& m : models) {
    add("attn_logits", m, m["attn_logits"]);
    for (const Json& map : m.value("maps", Json::array())) add(Formatted("  map {}", map["map"].get<int>()), m, map);
  }
  for (const Json& m : models) add("layer_out", m, m["layer_out"]);
  return TableText(table);
}

std::string OutlierCsv(const std::vector<Json>& models) {
  Table table{.columns = {{"model"}, {"site"}, {"layer"}, {"head"}, {"map"}, {"count"}, {"absmax"}}};
  AddFigureColumns(table.columns);
  for (const Json& m : models) {
    // `figures` have their head and map, if they are of one.
    const auto add = [&](const char* site, const Json& layer, const Json& figures) {
      table.rows.push_back(figures);
      table.rows.back().update({{"model", m["model"]}, {"site", site}, {"layer", layer}});
    };
    add("attn_logits", {}, m["attn_logits"]);
    for (const Json& map : m.value("maps", Json::array())) add("attn_logits", {}, map);
    add("layer_out", {}, m["layer_out"]);
    for (const Json& layer : m["layers"]) {
      add("attn_logits", layer["layer"], layer["attn_logits"]);
      for (const Json& head : layer["heads"]) add("attn_logits", layer["layer"], head);
      add("layer_out", layer["layer"], layer["layer_out"]);
    }
  }
  return TableCsv(table);
}

}  // namespace tare
