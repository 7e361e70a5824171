// SPDX-License-Identifier: Apache-2.0
// Small results as the commands write them, for reports.
#pragma once

#include <string>
#include <vector>

#include "experiments/report/figures/figures.h"
#include "quant/file/json.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare {

// `tare stats --json` of a model of two layers. From position `from` on hidden states are a tenth as large; 0: all
// positions only.
inline nlohmann::ordered_json OutliersOf(const std::string& model, double logit, double hidden, int64_t from = 0) {
  const auto site = [](double largest) { return Json{{"count", 50}, {"absmax", largest}, {"median", 0.5}}; };
  const auto layers = [&](double state) {
    return Json::array({{{"layer", 0}, {"attn_logits", site(logit / 2)}, {"layer_out", site(state / 2)}},
                        {{"layer", 1}, {"attn_logits", site(logit)}, {"layer_out", site(state)}}});
  };
  Json json{{"schema", "tare.stats/3"}, {"model", model}, {"tokens", 10}, {"layers", layers(hidden)}};
  if (from > 0) json["rest"] = {{"from", from}, {"layers", layers(hidden / 10)}};
  return json;
}

// A sweep's cell of one task: the perplexity at so many bits.
struct Point {
  int bits;
  double perplexity;
};
// The losses of 24 windows of ten tokens.
inline std::vector<double> LossesOf(int bits) {
  std::vector<double> losses;
  for (int i = 0; i < 4; ++i) {
    const double some[] = {30.0, 29.0 + bits / 16.0, 31.0, 30.0, 28.0, 32.0 - bits / 16.0};
    losses.insert(losses.end(), std::begin(some), std::end(some));
  }
  return losses;
}

inline nlohmann::ordered_json CellsOf(const std::string& model, const std::vector<Point>& points,
                                      const std::string& site = "attn_logits", const std::string& weights = "77aa") {
  Json cells = Json::array();
  for (const auto& [bits, perplexity] : points) {
    const std::string plan = bits == 16 ? "f32" : site + "=int" + std::to_string(bits) + "/tensor";
    cells.push_back({{"model", model},
                     {"task", "perplexity:text"},
                     {"key", {{"model", model}, {"weights", weights}, {"plan", plan}, {"math", "f32"}}},
                     {"result",
                      {{"nll", 3.0},
                       {"perplexity", perplexity},
                       {"tokens", 40},
                       {"nll_stderr", 0.5},
                       {"window_losses", LossesOf(bits)},
                       {"window_tokens", std::vector(24, 10)}}}});
  }
  return cells;
}

// A divergence of a sweep; key_bits: 0 of plans without a rule for keys or values.
inline nlohmann::ordered_json DivergenceCell(const std::string& model, const std::string& plan, double key_bits,
                                             double kld) {
  Json result{{"kld", kld}, {"same_top", 1.0}, {"perplexity_ratio", 1.0}, {"tokens", 100}};
  if (key_bits > 0) result.update({{"key_bits", key_bits}, {"value_bits", 16}});
  return {{"model", model},
          {"task", "divergence:text"},
          {"key", {{"model", model}, {"weights", "77aa"}, {"plan", plan}, {"math", "f32"}}},
          {"result", result}};
}

inline nlohmann::ordered_json SweepOf(const std::vector<nlohmann::ordered_json>& cells) {
  nlohmann::ordered_json sweep{{"schema", "tare.sweep/2"}, {"cells", nlohmann::ordered_json::array()}};
  for (const nlohmann::ordered_json& some : cells)
    sweep["cells"].insert(sweep["cells"].end(), some.begin(), some.end());
  return sweep;
}

// `tare search --within 0.02` of a frontier of three points, of which the last two were run.
inline nlohmann::ordered_json SearchOf(const std::string& model) {
  const auto point = [](int step, double bits, double predicted) {
    return Json{{"step", step}, {"bits", bits}, {"predicted", predicted}};
  };
  const auto run = [](Json of, const std::string& plan, double value, const Json& low, const Json& high) {
    const Json change{{"value", value}, {"low", low}, {"high", high}};
    of.update({{"plan", plan}, {"tasks", {{{"task", "divergence:t"}, {"value", value}, {"change", change}}}}});
    return of;
  };
  return {{"schema", "tare.search/1"},
          {"model", model},
          {"within", 0.02},
          {"plan", "q=int8/token"},
          {"frontier", {point(0, 16.0, 0.0), point(1, 8.0, 0.01), point(2, 4.0, 0.5)}},
          {"verified",
           {run(point(1, 8.0, 0.01), "q=int8/token", 0.0125, 0.01, 0.015),
            run(point(2, 4.0, 0.5), "q=int4/token", 0.75, nullptr, nullptr)}}};
}

// The material of these, each in a file of its own.
inline Material MaterialOf(const std::vector<nlohmann::ordered_json>& documents) {
  const TemporaryFolder folder;
  std::vector<std::filesystem::path> files;
  for (const nlohmann::ordered_json& document : documents) {
    files.push_back(folder / (std::to_string(files.size()) + ".json"));
    PutFile(files.back(), document.dump());
  }
  return ReadMaterial(files);
}

inline Json MapOf(double error) {
  return {{"logit_rms", 0.25}, {"shiftless_rms", 0.125}, {"exp_bias", 0.5},      {"half_variance", 0.75},
          {"error", error},    {"peak", -0.5},           {"peak_formula", -0.25}};
}

// `tare maps` of a model of two layers under one plan.
inline Json MapsOf(const std::string& model, double last, const Json& low, const Json& high) {
  const Json difference{{"error", 0.0625},    {"common", 0.25}, {"low", low},         {"high", high},
                        {"correlation", 0.5}, {"peak", -0.125}, {"peak_formula", 0.0}};
  const Json first{{"layer", 0}, {"maps", {MapOf(0.5), MapOf(0.25)}}, {"difference", difference}};
  const Json second{{"layer", 1}, {"maps", {MapOf(0.125), MapOf(last)}}, {"difference", nullptr}};
  return {{"schema", "tare.maps/1"},
          {"model", model},
          {"positions", 40},
          {"plans", {{{"plan", "k=int4/token"}, {"layers", {first, second}}}}}};
}

// `tare maps --heads 2.1` of a model of two maps and four tokens, two a cell, under a plan that moves an entry so far.
inline Json HeadsOf(const std::string& model, double error) {
  const auto cells = [](double a, double b, double c) { return Json{Json::array({a}), Json::array({b, c})}; };
  const Json head{{"layer", 2},
                  {"head", 1},
                  {"tokens", 4},
                  {"cell", 2},
                  {"lambda", 0.5},
                  {"maps", {cells(1, 0.5, 0.75), cells(1, 0.25, 0.875)}},
                  {"difference", cells(0.5, 0.375, -0.25)},
                  {"error", cells(0.0, -error, 0.0625)}};
  return {{"schema", "tare.maps/1"},
          {"model", model},
          {"positions", 4},
          {"plans", {{{"plan", "k=int4/token"}, {"layers", Json::array()}, {"heads", {head}}}}}};
}

}  // namespace tare
