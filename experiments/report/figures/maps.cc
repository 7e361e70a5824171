// SPDX-License-Identifier: Apache-2.0
// Layers x heads of a measure (docs/reference/statistics-file.md), one panel per model and map. The page shows some of
// the measures; `tare plot` draws any.
#include <algorithm>
#include <cctype>

#include "experiments/report/figures/figures.h"
#include "quant/base/formatted.h"
#include "quant/observe/measures.h"

namespace tare {
namespace {

constexpr std::string_view kOnPage[] = {"attn_logits.absmax", "attn_logits.kurtosis",     "probs.entropy",
                                        "probs.sink_mass",    "difference.negative_mass", "difference.cancellation"};

// In words: the largest is "The largest WORDS is ..."; and how it follows from the values.
struct MeasureWords {
  std::string_view measure, words, definition;
};
constexpr MeasureWords kWords[] = {
    {"attn_logits.absmax", "magnitude of attention logits", "the largest |x|, scaled, before the softmax; no unit"},
    {"attn_logits.kurtosis", "kurtosis of attention logits",
     "their fourth central moment over the square of their variance: 3 of a normal distribution"},
    {"probs.entropy", "entropy of attention", "-sum p ln p over the keys of a query, nats, mean over queries"},
    {"probs.sink_mass", "attention to the first key",
     "the share that a query gives to the first key, 0 where a window hides it, mean over queries"},
    {"difference.negative_mass", "negative part of the difference of maps",
     "the sum of the magnitudes of the negative entries of P1 - lambda P2 of a query, mean over queries"},
    {"difference.cancellation", "norm of the difference of maps, relative to the first map",
     "|P1 - lambda P2| / |P1| of a query, mean over queries"}};

std::string WordsOf(const std::string& measure) {
  const auto known = std::ranges::find(kWords, measure, &MeasureWords::measure);
  return known == std::end(kWords) ? measure : std::string(known->words);
}

std::string DefinitionOf(const std::string& measure) {
  const auto known = std::ranges::find(kWords, measure, &MeasureWords::measure);
  return known == std::end(kWords) ? "defined in docs/reference/statistics-file.md of Tare's sources"
                                   : std::string(known->definition);
}

std::string Capitalized(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

FigureData& FigureNamed(const std::string& measure, std::vector<FigureData>& figures) {
  const std::string name = "maps:" + measure;
  const auto known = std::ranges::find(figures, name, &FigureData::name);
  if (known != figures.end()) return *known;
  return figures.emplace_back(
      FigureData{.name = name,
                 .title = Capitalized(WordsOf(measure)) + " by layer and head",
                 .table = Titled({"panel: model", "layer", "head", "value: " + measure, "n: values"}),
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
    text += Formatted("{} {:.4g} in {}, layer {}, head {}",
                      text.empty() ? "The largest " + WordsOf(measure) + " is" : ";", NumberAt(*row, "value"),
                      row->at("panel").get<std::string>(), row->at("layer").get<int>(), row->at("head").get<int>());
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
        "{} ({}) of each layer and head, over all positions: {}. n: {} values in the first row of the table, which "
        "gives n of every row.",
        Capitalized(WordsOf(measure)), measure, DefinitionOf(measure), figure.table.rows[0].at("n").dump());
    AddFindings(figure, measure);
  }
  std::ranges::stable_sort(figures, std::less(), [](const FigureData& f) {
    return std::ranges::find(kOnPage, std::string_view(f.name).substr(5)) - std::ranges::begin(kOnPage);
  });
  return figures;
}

}  // namespace tare
