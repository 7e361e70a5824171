// SPDX-License-Identifier: Apache-2.0
// Layers x heads of a measure (quant/STATISTICS.md), one panel per model and map. The page shows some of the measures;
// `tare plot` draws any.
#include <algorithm>

#include "experiments/report/figures/figures.h"
#include "quant/base/formatted.h"
#include "quant/observe/measures.h"

namespace tare {
namespace {

constexpr std::string_view kOnPage[] = {"attn_logits.absmax", "attn_logits.kurtosis",     "probs.entropy",
                                        "probs.sink_mass",    "difference.negative_mass", "difference.cancellation"};

FigureData& FigureNamed(const std::string& measure, std::vector<FigureData>& figures) {
  const std::string name = "maps:" + measure;
  const auto known = std::ranges::find(figures, name, &FigureData::name);
  if (known != figures.end()) return *known;
  return figures.emplace_back(FigureData{
      .name = name,
      .title = measure + " by layer and head",
      .table =
          {.columns = {{"panel", "model"}, {"layer", "layer"}, {"head", "head"}, {"value", measure}, {"n", "values"}}},
      .drawn = {"value"},
      .on_page = std::ranges::contains(kOnPage, measure)});
}

// Where each panel has its largest.
void AddFindings(FigureData& figure, const std::string& measure) {
  std::vector<const Json*> largest;
  for (const Json& row : figure.table.rows) {
    if (row.at("value").is_null()) continue;
    const auto known =
        std::ranges::find_if(largest, [&](const Json* one) { return one->at("panel") == row.at("panel"); });
    if (known == largest.end()) {
      largest.push_back(&row);
    } else if (NumberAt(row, "value") > NumberAt(**known, "value")) {
      *known = &row;
    }
  }
  std::string text;
  for (const Json* row : largest)
    text += Formatted("{} {:.4g} in {}, layer {}, head {}", text.empty() ? "The largest " + measure + " is" : ";",
                      NumberAt(*row, "value"), row->at("panel").get<std::string>(), row->at("layer").get<int>(),
                      row->at("head").get<int>());
  if (!text.empty()) figure.findings.push_back(text + ".");
}

}  // namespace

std::vector<FigureData> Maps(const Material& material) {
  std::vector<FigureData> figures;
  for (const ModelStatistics& of : material.statistics) {
    for (const auto& [key, s] : of.set.sites) {
      if (!key.layer || !key.head || s.outliers.count() == 0) continue;
      Measures measures = AllMeasures(of.set, key);
      std::erase_if(measures, [](const auto& measure) { return measure.first == "absmax"; });  // of groups of sequences
      measures.emplace(measures.begin(), "absmax", s.outliers.absmax());
      const std::string panel = of.model + (key.map ? Formatted(", map {}", *key.map) : "");
      for (const auto& [name, value] : measures) {
        FigureNamed(std::string(Name(key.site)) + "." + name, figures)
            .table.Add({panel, *key.layer, *key.head, NumberOrNull(value), s.outliers.count()});
      }
    }
  }
  for (FigureData& figure : figures) {
    const std::string measure = figure.name.substr(5);
    figure.caption = Formatted(
        "{} of each layer and head, as defined in quant/STATISTICS.md, of all positions. n: {} values in the first row "
        "of the table, "
        "which gives n of every row.",
        measure, figure.table.rows[0].at("n").dump());
    AddFindings(figure, measure);
  }
  std::ranges::stable_sort(figures, std::less(), [](const FigureData& f) {
    return std::ranges::find(kOnPage, std::string_view(f.name).substr(5)) - std::ranges::begin(kOnPage);
  });
  return figures;
}

}  // namespace tare
