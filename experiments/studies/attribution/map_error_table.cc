// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/map_error_table.h"

#include <cmath>

#include "experiments/significance/shown.h"
#include "experiments/text/csv.h"
#include "quant/base/formatted.h"
#include "quant/file/json.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

MapErrors TotalOf(const std::vector<MapErrors>& sequences) {
  MapErrors total;
  for (const MapErrors& errors : sequences) total += errors;
  return total;
}

double Ratio(double part, double whole) { return whole == 0 ? 0 : part / whole; }

struct MapFigures {
  double logit_rms, shiftless_rms, exp_bias, half_variance, error, peak, peak_formula;

  explicit MapFigures(const MapSums& s)
      : logit_rms(std::sqrt(Ratio(s.logit_squares, s.keys))),
        shiftless_rms(std::sqrt(Ratio(s.shiftless_squares, s.keys))),
        exp_bias(Ratio(s.exp_bias, s.rows)),
        half_variance(Ratio(s.half_variance, s.rows)),
        error(std::sqrt(Ratio(s.error_squares, s.map_squares))),
        peak(Ratio(s.peak, s.map_squares)),
        peak_formula(Ratio(s.peak_formula, s.map_squares)) {}
};

std::string MapLine(const std::string& layer, int map, const MapFigures& f) {
  return Formatted("  {:<3}map {:<7}{:>7.4f}{:>10.4f}{:>10.4f}{:>9.4f}{:>8.4f}{:>9.4f}{:>9.4f}\n", layer, map,
                   f.logit_rms, f.shiftless_rms, f.exp_bias, f.half_variance, f.error, f.peak, f.peak_formula);
}

bool Differential(const MapErrors& errors) { return errors.maps[1].rows > 0; }

constexpr const char* kCsvFigures[] = {"logit_rms", "shiftless_rms", "exp_bias",     "half_variance",
                                       "error",     "peak",          "peak_formula", "common",
                                       "low",       "high",          "correlation"};

std::string CsvLine(const std::string& start, const std::string& map, const Json& figures) {
  std::string line = start + map;
  for (const char* name : kCsvFigures) {
    const auto figure = figures.find(name);
    line += "," + (figure == figures.end() || figure->is_null() ? "" : figure->dump());
  }
  return line + "\n";
}

double ErrorOf(const DifferenceSums& d) { return std::sqrt(Ratio(d.error_squares, d.map_squares)); }

}  // namespace

CommonShare CommonOf(const std::vector<MapErrors>& sequences, const Resampling& resampling) {
  PairedRuns runs{.counts = {}, .sums = {{}}, .signs = {1}};
  for (const MapErrors& errors : sequences) {
    runs.counts.push_back(errors.difference.first_squares + errors.difference.second_squares);
    runs.sums[0].push_back(2 * errors.difference.common);
  }
  const DifferenceSums d = TotalOf(sequences).difference;
  return {.value = Ratio(2 * d.common, d.first_squares + d.second_squares),
          .correlation = Ratio(d.common, std::sqrt(d.first_squares * d.second_squares)),
          .interval = d.first_squares + d.second_squares > 0 ? BcaInterval(runs, resampling) : std::nullopt};
}

std::string MapErrorTable(const std::string& plan, const LayerMapErrors& layers, const Resampling& resampling) {
  std::string text = Formatted("\n{}\n  {:<14}{:>7}{:>10}{:>10}{:>9}{:>8}{:>9}{:>9}\n", plan, "layer", "logits",
                               "no shift", "exp bias", "var / 2", "map", "peak", "formula");
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const MapErrors total = TotalOf(layers[layer]);
    text += MapLine(Formatted("{}", layer), 1, MapFigures(total.maps[0]));
    if (!Differential(total)) continue;
    text += MapLine("", 2, MapFigures(total.maps[1]));
    const CommonShare common = CommonOf(layers[layer], resampling);
    const std::string share =
        common.interval ? WithInterval(common.value, *common.interval, "+.3f") : NumberText(common.value, "+.3f");
    text += Formatted("     {:<47}{:>8.4f}{:>9.4f}{:>9.4f}\n", "difference, in common " + share,
                      ErrorOf(total.difference), Ratio(total.difference.peak, total.difference.map_squares),
                      Ratio(total.difference.peak_formula, total.difference.map_squares));
  }
  return text;
}

Json MapErrorJson(const std::string& plan, const LayerMapErrors& layers, const Resampling& resampling) {
  Json json{{"plan", plan}, {"layers", Json::array()}};
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const MapErrors total = TotalOf(layers[layer]);
    Json maps = Json::array(), difference;
    for (size_t map = 0; map < (Differential(total) ? 2u : 1u); ++map) {
      const MapFigures f(total.maps[map]);
      maps.push_back({{"logit_rms", f.logit_rms},
                      {"shiftless_rms", f.shiftless_rms},
                      {"exp_bias", f.exp_bias},
                      {"half_variance", f.half_variance},
                      {"error", f.error},
                      {"peak", f.peak},
                      {"peak_formula", f.peak_formula}});
    }
    if (Differential(total)) {
      const CommonShare common = CommonOf(layers[layer], resampling);
      const DifferenceSums& d = total.difference;
      difference = {{"error", ErrorOf(d)},
                    {"common", common.value},
                    {"low", common.interval ? Json(common.interval->low) : Json()},
                    {"high", common.interval ? Json(common.interval->high) : Json()},
                    {"correlation", common.correlation},
                    {"peak", Ratio(d.peak, d.map_squares)},
                    {"peak_formula", Ratio(d.peak_formula, d.map_squares)}};
    }
    json["layers"].push_back({{"layer", layer}, {"maps", maps}, {"difference", difference}});
  }
  return json;
}

std::string MapErrorCsv(const Json& plans) {
  std::string text = "plan,layer,map";
  for (const char* name : kCsvFigures) text += Formatted(",{}", name);
  text += "\n";
  for (const Json& plan : plans) {
    for (const Json& layer : plan.at("layers")) {
      const std::string start =
          Formatted("{},{},", CsvField(plan.at("plan").get<std::string>()), layer.at("layer").dump());
      const Json& maps = layer.at("maps");
      for (size_t map = 0; map < maps.size(); ++map) text += CsvLine(start, Formatted("{}", map + 1), maps[map]);
      if (!layer.at("difference").is_null()) text += CsvLine(start, "difference", layer.at("difference"));
    }
  }
  return text;
}

}  // namespace tare
