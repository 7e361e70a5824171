// SPDX-License-Identifier: Apache-2.0
// JSON of figures, maps, kinds and layers, reports of whole models, lines of records, the table, its legend and CSV.
#include "experiments/observe/statistics_report.h"

#include <algorithm>
#include <utility>

#include "experiments/model/config/family.h"
#include "experiments/model/plan_run.h"
#include "experiments/table/table.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

using Observed = std::map<SiteKey, SiteStatistics>;

constexpr const char* kOutlierSchema = "tare.outliers/1";
constexpr int kTops[] = {1, 2, 3, 10, 100};

Json Figures(const OutlierStatistics& s) {
  const bool any = s.count() > 0;
  Json json{{"count", s.count()},
            {"absmax", any ? Json(s.absmax()) : Json()},
            {"median", any ? Json(s.Quantile(0.5)) : Json()}};
  const std::vector<TopValue> top = s.top.Sorted();
  for (const int k : kTops)
    json[Formatted("top{}", k)] = top.size() < static_cast<size_t>(k) ? Json() : Json(std::abs(top[k - 1].value));
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

Json MapsJson(const Observed& sites, std::optional<int> layer) {
  Json maps = Json::array();
  for (const int map : {1, 2}) {
    Json figures{{"map", map}};
    figures.update(Figures(OutliersAt(sites, Site::kAttnLogits, layer, {}, map)));
    maps.push_back(figures);
  }
  return maps;
}

// What a layer's queries see, and whether their positions show.
std::string AttentionKind(const ModelConfig& c, int layer) {
  const std::string kind = KindText(c, layer);
  if (!c.rotates || c.Rotates(layer)) return kind;
  return kind == "full" ? "no rotary" : kind + ", no rotary";
}

// The attention logits of the layers of each kind, where there are several, by the first layer of each.
Json KindsJson(const Observed& sites, const ModelConfig& c) {
  std::vector<std::pair<std::string, std::vector<int>>> kinds;
  for (int layer = 0; layer < c.layers; ++layer) {
    if (c.KeysLayer(layer) < 0) continue;
    const std::string kind = AttentionKind(c, layer);
    auto found = std::ranges::find(kinds, kind, &std::pair<std::string, std::vector<int>>::first);
    if (found == kinds.end()) found = kinds.insert(kinds.end(), {kind, {}});
    found->second.push_back(layer);
  }
  Json json = Json::array();
  if (kinds.size() < 2) return json;
  for (const auto& [kind, layers] : kinds) {
    OutlierStatistics all;
    for (const int layer : layers) all.Merge(OutliersAt(sites, Site::kAttnLogits, layer));
    Json& figures = json.emplace_back(Json{{"kind", kind}, {"layers", layers}});
    figures.update(Figures(all));
  }
  return json;
}

Json LayerJson(const Observed& sites, const ModelConfig& c, int layer) {
  Json json{{"layer", layer},
            {"attn_logits", Figures(OutliersAt(sites, Site::kAttnLogits, layer))},
            {"layer_out", Figures(OutliersAt(sites, Site::kLayerOut, layer))}};
  json["heads"] = Json::array();
  if (!c.kinds.empty()) json["kind"] = KindText(c, layer);
  if (c.KeysLayer(layer) < 0) return json;
  const std::vector<OutputHead> table = HeadTable(c);
  const bool differential = table.front().Differential();
  if (differential) json["maps"] = MapsJson(sites, layer);
  for (int head = 0; head < c.heads; ++head) {
    Json figures{{"head", head}};
    if (differential) figures["map"] = MapOf(table, Site::kAttnLogits, head).value_or(0);
    figures.update(Figures(OutliersAt(sites, Site::kAttnLogits, layer, head)));
    json["heads"].push_back(figures);
  }
  return json;
}

Json SitesJson(const Observed& sites, const ModelConfig& c, int64_t from) {
  const OutlierStatistics logits = OutliersAt(sites, Site::kAttnLogits), hidden = OutliersAt(sites, Site::kLayerOut);
  Json json{{"from", from}, {"attn_logits", Figures(logits)}, {"layer_out", Figures(hidden)}};
  if (Maps(c) == 2) json["maps"] = MapsJson(sites, {});
  if (Json kinds = KindsJson(sites, c); !kinds.empty()) json["kinds"] = std::move(kinds);
  json["layers"] = Json::array();
  for (int layer = 0; layer < c.layers; ++layer) json["layers"].push_back(LayerJson(sites, c, layer));
  json["top"] = {{"attn_logits", Places(logits, "query", "key")}, {"layer_out", Places(hidden, "token", "channel")}};
  return json;
}

// Where the largest value is: its layer and, of hidden states, its channel. `all` has the layers of these figures.
Json PlaceOf(const Json& all, const std::string& site, const Json& figures) {
  Json place = Json::object();
  if (figures["absmax"].is_null()) return place;
  const auto has_it = [&](const Json& some) { return some["absmax"] == figures["absmax"]; };
  for (const Json& layer : all["layers"]) {
    if (site == "layer_out" ? !has_it(layer[site]) : std::ranges::none_of(layer["heads"], has_it)) continue;
    place["layer"] = layer["layer"];
    break;
  }
  if (site == "layer_out") place["channel"] = all.at("top").at(site).at(0).at("channel");
  return place;
}

}  // namespace

OutlierStatistics OutliersAt(const Observed& sites, Site site, std::optional<int> layer, std::optional<int> head,
                             std::optional<int> map) {
  OutlierStatistics all;
  for (const auto& [key, s] : sites) {
    if (key.site == site && (!layer || layer == key.layer) && (!head || head == key.head) && (!map || map == key.map))
      all.Merge(s.outliers);
  }
  return all;
}

Json OutlierJson(const StatisticsSet& set, const ModelConfig& c, const std::string& model) {
  Json json{{"schema", "tare.stats/3"}, {"model", model}, {"tokens", set.tokens}};
  for (const auto& [from, sites] : set.Both()) {
    const Json figures = SitesJson(sites, c, from);
    json.update(from == 0 ? figures : Json{{"rest", figures}});
  }
  return json;
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
  Table table{.columns = {Left("x", "|x|"), Left("model", "model")}};
  constexpr std::pair<const char*, const char*> kFigures[] = {{"top1", "top-1"},      {"layer", "layer"},
                                                              {"channel", "channel"}, {"top10", "top-10"},
                                                              {"top100", "top-100"},  {"median", "median"}};
  for (const auto& [name, title] : kFigures)
    table.columns.push_back({.name = name, .title = title, .format = "{:.4g}", .none = "-"});
  // A row of the site per model, its maps, and its kinds of layers.
  const auto rows = [&](const std::string& site, bool rest) {
    for (const Json& m : models) {
      if (rest && !m.contains("rest")) continue;
      const Json& figures = rest ? m["rest"] : m;
      const auto add = [&](const std::string& x, const Json& of) {
        Json& row = table.rows.emplace_back(of);
        row.update(PlaceOf(figures, site, of));
        row.update({{"x", x}, {"model", m["model"]}});
      };
      add(rest ? Formatted("  from {}", figures["from"].get<int64_t>()) : site, figures[site]);
      if (site != "attn_logits") continue;
      for (const Json& map : figures.value("maps", Json::array()))
        add(Formatted("{}map {}", rest ? "    " : "  ", map["map"].get<int>()), map);
      for (const Json& kind : figures.value("kinds", Json::array()))
        add(Formatted("{}{}", rest ? "    " : "  ", kind["kind"].get<std::string>()), kind);
    }
  };
  for (const char* site : {"layer_out", "attn_logits"}) {
    rows(site, false);
    rows(site, true);
  }
  return TableText(table);
}

std::string OutlierLegend(const std::vector<Json>& models) {
  std::string text =
      "layer_out: hidden states after every layer; attn_logits: scaled, before the\n"
      "softmax, without masked ones and without rows of one key\n"
      "layer, channel: where top-1 is; other columns are of all layers together\n";
  if (models[0].contains("rest")) {
    const auto from = models[0]["rest"]["from"].get<int64_t>();
    text += Formatted("from {}: {} of every sequence\n", from, PositionsText("layer_out", from));
  }
  return text;
}

std::string OutlierCsv(const std::vector<Json>& models) {
  Table table{.columns = {{"model"}, {"site"}, {"layer"}, {"head"}, {"map"}, {"from"}, {"count"}, {"absmax"}}};
  for (const int k : kTops) table.columns.push_back({Formatted("top{}", k)});
  table.columns.push_back({"median"});
  for (const Json& m : models) {
    for (const Json* const of : {&m, m.contains("rest") ? &m["rest"] : nullptr}) {
      if (of == nullptr) continue;
      // `figures` have their head and map, if they are of one.
      const auto add = [&](const char* site, const Json& layer, const Json& figures) {
        table.rows.push_back(figures);
        table.rows.back().update({{"model", m["model"]}, {"site", site}, {"layer", layer}, {"from", (*of)["from"]}});
      };
      add("attn_logits", {}, (*of)["attn_logits"]);
      for (const Json& map : of->value("maps", Json::array())) add("attn_logits", {}, map);
      add("layer_out", {}, (*of)["layer_out"]);
      for (const Json& layer : (*of)["layers"]) {
        if (!layer["heads"].empty()) add("attn_logits", layer["layer"], layer["attn_logits"]);
        for (const Json& head : layer["heads"]) add("attn_logits", layer["layer"], head);
        add("layer_out", layer["layer"], layer["layer_out"]);
      }
    }
  }
  return TableCsv(table);
}

}  // namespace tare
