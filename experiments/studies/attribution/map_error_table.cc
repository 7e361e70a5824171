// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/map_errors.h"

#include <cmath>

#include "experiments/studies/sweep/comparison.h"
#include "experiments/table/table.h"
#include "quant/base/message.h"

namespace tare {
namespace {

MapErrors TotalOf(const std::vector<MapErrors>& sequences) {
  MapErrors total;
  for (const MapErrors& errors : sequences) total += errors;
  return total;
}

double Ratio(double part, double whole) { return whole == 0 ? 0 : part / whole; }

// The columns in CSV order; text shows the columns with a title.
std::vector<Column> FigureColumns() {
  return {Number("logit_rms", "logits", "{:.4f}", 6),
          Number("shiftless_rms", "no shift", "{:.4f}", 8),
          Number("exp_bias", "exp bias", "{:.4f}", 8),
          Number("half_variance", "var / 2", "{:.4f}", 7),
          Number("error", "map", "{:.4f}", 6),
          Number("peak", "peak", "{:.4f}", 7),
          Number("peak_formula", "formula", "{:.4f}", 7),
          {"common"},
          {"low"},
          {"high"},
          {"correlation"}};
}

// Adds the peaks of a map, or of the difference.
void AddPeaks(Json& row, const auto& sums) {
  row["peak"] = Ratio(sums.peak, sums.map_squares);
  row["peak_formula"] = Ratio(sums.peak_formula, sums.map_squares);
}
double ErrorOf(const auto& sums) { return std::sqrt(Ratio(sums.error_squares, sums.map_squares)); }

Json RowOf(const MapSums& s) {
  Json row{{"logit_rms", std::sqrt(Ratio(s.logit_squares, s.keys))},
           {"shiftless_rms", std::sqrt(Ratio(s.shiftless_squares, s.keys))},
           {"exp_bias", Ratio(s.exp_bias, s.rows)},
           {"half_variance", Ratio(s.half_variance, s.rows)},
           {"error", ErrorOf(s)}};
  AddPeaks(row, s);
  return row;
}

Json RowOf(const DifferenceSums& d, const CommonShare& common) {
  Json row{{"error", ErrorOf(d)}, {"common", common.value}};
  for (const auto& [column, end] : IntervalColumns())
    row[column.name] = common.interval ? end(*common.interval) : Json();
  row["correlation"] = common.correlation;
  AddPeaks(row, d);
  return row;
}

std::string LabelOf(const Json& row) {
  if (!row.contains("common")) return Formatted("map {}", row["map"].dump());
  const auto common = row["common"].get<double>();
  return "difference, in common " +
         (row["low"].is_null() ? NumberText(common, "+.3f") : WithInterval(common, {row["low"], row["high"]}, "+.3f"));
}

// A row per layer and map, and one of the map "difference".
std::vector<Json> RowsOf(const Json& plan) {
  std::vector<Json> rows;
  for (const Json& layer : plan.at("layers")) {
    const auto add = [&](const Json& map, const Json& figures) {
      rows.emplace_back(Json{{"plan", plan.at("plan")}, {"layer", layer.at("layer")}, {"map", map}}).update(figures);
    };
    const Json& maps = layer.at("maps");
    for (size_t map = 0; map < maps.size(); ++map) add(map + 1, maps[map]);
    if (!layer.at("difference").is_null()) add("difference", layer.at("difference"));
  }
  return rows;
}

}  // namespace

CommonShare CommonOf(const std::vector<MapErrors>& sequences) {
  PairedRuns runs{.counts = {}, .sums = {{}}, .signs = {1}};
  for (const MapErrors& errors : sequences) {
    runs.counts.push_back(errors.difference.first_squares + errors.difference.second_squares);
    runs.sums[0].push_back(2 * errors.difference.common);
  }
  const DifferenceSums d = TotalOf(sequences).difference;
  const double value = Ratio(2 * d.common, d.first_squares + d.second_squares);
  std::optional<Interval> interval;
  if (const std::optional<MeanError> error = PairedError(runs); error && error->error > 0)
    interval = error->Around(value);
  return {.value = value,
          .correlation = Ratio(d.common, std::sqrt(d.first_squares * d.second_squares)),
          .interval = interval};
}

Json MapErrorJson(const std::string& plan, const LayerMapErrors& layers) {
  Json json{{"plan", plan}, {"layers", Json::array()}};
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    if (layers[layer].empty()) continue;  // without attention
    const MapErrors total = TotalOf(layers[layer]);
    Json maps = Json::array({RowOf(total.maps[0])}), difference;
    if (total.maps[1].rows > 0) {  // differential
      maps.push_back(RowOf(total.maps[1]));
      difference = RowOf(total.difference, CommonOf(layers[layer]));
    }
    json["layers"].push_back({{"layer", layer}, {"maps", maps}, {"difference", difference}});
  }
  return json;
}

std::string MapErrorTable(const Json& plan) {
  Table table{.columns = FigureColumns(), .rows = RowsOf(plan)};
  table.columns.insert(table.columns.begin(), Left("label", "layer", 13));
  for (Json& row : table.rows)
    row["label"] = Formatted("{:<3}{}", row["map"] == 1 ? row["layer"].dump() : "", LabelOf(row));
  return Formatted("\n{}\n", plan.at("plan").get<std::string>()) + TableText(table, 2);
}

std::string MapErrorCsv(const Json& plans) {
  Table table{.columns = FigureColumns()};
  table.columns.insert(table.columns.begin(), {{"plan"}, {"layer"}, {"map"}});
  for (const Json& plan : plans) std::ranges::move(RowsOf(plan), std::back_inserter(table.rows));
  return TableCsv(table);
}

}  // namespace tare
