// SPDX-License-Identifier: Apache-2.0
// Largest magnitudes by layer, from statistics files and, for models without one, from `tare stats --json`.
#include <algorithm>
#include <cmath>
#include <map>

#include "experiments/observe/outlier_report.h"
#include "experiments/report/figures/figures.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

struct Largest {
  std::string site, model;
  int layer = 0;
  double largest = 0, median = 0;
  uint64_t count = 0;
};

std::string NotFinite(uint64_t count, const std::string& site, const std::string& model, int layer) {
  return Formatted("site {}, model {}, layer {}: {} values are infinite or NaN and are left out", site, model, layer,
                   count);
}

void AddStatistics(const ModelStatistics& of, std::vector<Largest>& all, std::vector<std::string>& missing) {
  const OutlierFigures figures(of.set);
  int layers = 0;
  for (const auto& [key, s] : of.set.sites) layers = std::max(layers, key.layer.value_or(-1) + 1);
  for (int layer = 0; layer < layers; ++layer) {
    const auto add = [&](const char* site, const OutlierStatistics& s) {
      if (s.nonfinite > 0) missing.push_back(NotFinite(s.nonfinite, site, of.model, layer));
      const bool some = s.count() > 0;
      if (some || s.nonfinite > 0)
        all.push_back({site, of.model, layer, some ? s.absmax() : NAN, some ? s.magnitudes.Median() : NAN, s.count()});
    };
    add("attn_logits", figures.AttentionLogits(layer, {}, {}));
    add("layer_out", figures.HiddenStates(layer));
  }
}

void AddDocument(const Json& json, std::vector<Largest>& all, std::vector<std::string>& missing) {
  for (const Json& layer : json.at("layers")) {
    for (const char* site : {"attn_logits", "layer_out"}) {
      if (!layer.contains(site)) continue;
      const Json& s = layer[site];
      const uint64_t count = s.at("count");
      const uint64_t bad = s.value("nonfinite", uint64_t{0});
      if (bad > 0) missing.push_back(NotFinite(bad, site, json.at("model"), layer.at("layer")));
      if (count + bad > 0)
        all.push_back({site, json.at("model"), layer.at("layer"), count > 0 ? NumberAt(s, "absmax") : NAN,
                       count > 0 ? NumberAt(s, "median") : NAN, count});
    }
  }
}

std::string WordsFor(const std::string& site) { return site == "attn_logits" ? "attention logit" : "hidden state"; }

// One sentence per site: the largest of each model, and its ratio to that of the first.
std::vector<std::string> FindingsOf(const std::vector<Largest>& all) {
  std::vector<std::string> findings;
  for (const char* site : {"attn_logits", "layer_out"}) {
    std::vector<Largest> tops;  // per model
    for (const Largest& one : all) {
      if (one.site != site || !std::isfinite(one.largest)) continue;
      const auto known = std::ranges::find(tops, one.model, &Largest::model);
      if (known == tops.end()) {
        tops.push_back(one);
      } else if (one.largest > known->largest) {
        *known = one;
      }
    }
    if (tops.empty()) continue;
    std::string text = Formatted("The largest {} of {} is {:.4g}, in layer {}", WordsFor(site), tops[0].model,
                                 tops[0].largest, tops[0].layer);
    for (size_t i = 1; i < tops.size(); ++i) {
      text += Formatted("; that of {} is {:.4g}, in layer {}", tops[i].model, tops[i].largest, tops[i].layer);
      if (tops[0].largest > 0) text += Formatted(" ({:.2f} times as large)", tops[i].largest / tops[0].largest);
    }
    findings.push_back(text + ".");
  }
  return findings;
}

}  // namespace

std::vector<FigureData> LargestMagnitudes(const Material& material) {
  std::vector<Largest> all;
  std::vector<std::string> missing;
  for (const ModelStatistics& one : material.statistics) AddStatistics(one, all, missing);
  material.ForEach("tare.stats/2", [&](const Json& json) {
    if (!std::ranges::contains(material.statistics, json.at("model").get<std::string>(), &ModelStatistics::model))
      AddDocument(json, all, missing);
  });
  if (all.empty()) return {};
  std::ranges::stable_sort(all, {}, &Largest::site);  // logits first
  std::map<std::string, uint64_t> counts;
  FigureData figure{.name = "largest",
                    .title = "Largest magnitudes by layer",
                    .table = {.columns = {{"site", "site"},
                                          {"model", "model"},
                                          {"layer", "layer"},
                                          {"figure", "figure"},
                                          {"magnitude", "|x|"},
                                          {"n", "values"}}},
                    .drawn = {"magnitude"}};
  for (const Largest& one : all) {
    counts[one.site + " of " + one.model] += one.count;
    figure.table.Add({one.site, one.model, one.layer, "largest", NumberOrNull(one.largest), one.count});
    figure.table.Add({one.site, one.model, one.layer, "median", NumberOrNull(one.median), one.count});
  }
  figure.caption =
      "Largest and median magnitude of attention logits (scaled, before the softmax) and of hidden states after each "
      "layer; no unit; the median to within 0.4 %. n, values:";
  for (const auto& [what, count] : counts) figure.caption += Formatted(" {} {};", what, count);
  figure.caption.back() = '.';
  figure.findings = FindingsOf(all);
  figure.missing = std::move(missing);
  return {figure};
}

}  // namespace tare
