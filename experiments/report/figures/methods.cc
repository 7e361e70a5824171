// SPDX-License-Identifier: Apache-2.0
// What quantized files lose as stored against their bits: from sweeps of versions of one model (tare sweep --source),
// each with the plan and the method that it was quantized with, its size, and its change from the source with the
// interval and the verdict of the sweep's own tests (experiments/studies/sweep/comparison.h).
#include <algorithm>
#include <map>

#include "experiments/report/figures/figures.h"
#include "quant/base/find_in.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

const StoredVersion* VersionOf(const Sweep& sweep, const std::string& model) {
  return FindIn(sweep.versions, model, &StoredVersion::model);
}

std::string BitsText(const Json& row) { return NumberText(NumberAt(row, "bits"), ".2f"); }

// "gptq.h5 (gptq)"; a version of the model that is quantized otherwise has no method.
std::string NamedVersion(const Json& row) {
  const std::string model = row.at("model");
  return row.at("method").is_null() ? model : Formatted("{} ({})", model, row.at("method").get<std::string>());
}

bool IsPerplexity(const SweepFigure& row) { return std::string_view(row.figure->keys.name) == "perplexity"; }

// A perplexity's change in percent of the source's, which compares over texts; other figures in their own unit.
Json DrawnRow(const SweepFigure& row, const StoredVersion& version) {
  const double before = row.figure->value - row.change->value, unit = IsPerplexity(row) ? 100 / before : 1;
  const auto end = [&](double Interval::* of) {
    return row.change->interval ? NumberOrNull(unit * (*row.change->interval).*of) : Json();
  };
  return {{"bits", NumberOrNull(version.bits_per_weight)},
          {"quantized_bits", version.quantized_bits > 0 ? NumberOrNull(version.quantized_bits) : Json()},
          {"change", NumberOrNull(unit * row.change->value)},
          {"low", end(&Interval::low)},
          {"high", end(&Interval::high)}};
}

std::string ChangeText(const Json& row, const SweepFigure& figure) {
  if (IsPerplexity(figure)) return EndsText(row, "change", "+.2f") + " %";
  return SignedText(figure.cell->task, figure.figure->keys.name,
                    {{"value", row.at("change")}, {"low", row.at("low")}, {"high", row.at("high")}});
}

// What the tests say of versions of equally many bits: differences are from the first version alone.
std::string VerdictOf(const std::vector<const SweepFigure*>& figures) {
  std::string different, first;
  for (const SweepFigure* const row : figures) {
    if (row->drop == nullptr || !row->drop->p_holm) continue;
    first = row->drop->against;
    if (row->drop->Significant()) different += "; " + MoreText(*row) + " (significant)";
  }
  return first.empty() || !different.empty() ? different : Formatted("; no difference from {} is significant", first);
}

// One sentence for all versions of equally many bits:
//
//   At 4.25 bits per weight of quantized matrices (5.10 of all tensors), perplexity on own changes by +0.16 [+0.12,
//   +0.20] % with rtn.h5 (rtn) and +0.09 [+0.08, +0.10] % with gptq.h5 (gptq); gptq.h5 loses 0.002 [0.001, 0.003] less
//   perplexity on own than rtn.h5 (significant).
std::string FindingOf(const std::vector<const Json*>& rows, const std::vector<const SweepFigure*>& figures) {
  std::string named;
  for (size_t i = 0; i < rows.size(); ++i)
    named += Formatted("{}{} with {}",
                       i == 0                ? ""
                       : i + 1 < rows.size() ? ", "
                                             : " and ",
                       ChangeText(*rows[i], *figures[i]), NamedVersion(*rows[i]));
  const SweepFigure& one = *figures.front();
  const Json& quantized = rows.front()->at("quantized_bits");
  const std::string of_all =
      BitsText(*rows.front()) + (quantized.is_null() ? " bits per weight" : "") + " of all tensors";
  const std::string bits = quantized.is_null() ? of_all
                                               : Formatted("{:.2f} bits per weight of quantized matrices ({})",
                                                           quantized.get<double>(), of_all);
  return Formatted("At {}, {} changes by {}{}.", bits, FigureOnText(one.cell->task, one.figure->keys.name), named,
                   VerdictOf(figures));
}

void AddFindings(const std::vector<SweepFigure>& drawn, FigureData& figure) {
  std::map<std::pair<std::string, std::string>, std::vector<size_t>> groups;
  std::vector<std::pair<std::string, std::string>> order;
  for (size_t i = 0; i < drawn.size(); ++i) {
    const Json& row = figure.table.rows[i];
    const std::pair key(row.at("panel").get<std::string>(), BitsText(row));
    if (groups[key].empty()) order.push_back(key);
    groups[key].push_back(i);
  }
  for (const auto& key : order) {
    std::vector<const Json*> rows;
    std::vector<const SweepFigure*> figures;
    for (const size_t i : groups[key]) rows.push_back(&figure.table.rows[i]), figures.push_back(&drawn[i]);
    figure.findings.push_back(FindingOf(rows, figures));
  }
}

FigureData FigureOfVersions(const Sweep& sweep) {
  FigureData figure{
      .name = "methods",
      .title = "What quantized files lose, against their bits",
      .table =
          Titled({"panel: task, figure", "model: file", "plan: plan as stored", "method", "calibration: calibrated on",
                  "quantized_bits: bits per weight of quantized matrices", "bits: bits per weight of all tensors",
                  "megabytes: MB", "value", "change", "low: from", "high: to", "verdict", "n"}),
      .drawn = {"change"}};
  std::vector<SweepFigure> drawn;
  std::string source;
  for (const SweepFigure& row : sweep.Figures()) {
    const StoredVersion* const version = VersionOf(sweep, row.cell->model);
    if (version == nullptr || row.figure->keys.in_tables == nullptr) continue;
    if (row.cell->model == sweep.comparisons.of_source && IsPerplexity(row))
      source +=
          Formatted(" {} itself has perplexity {} on {}, in {:.2f} bits per weight and {:.2f} MB.", row.cell->model,
                    NumberText(row.figure->value, ".3f"), row.cell->task.substr(row.cell->task.find(':') + 1),
                    version->bits_per_weight, version->megabytes);
    if (row.change == nullptr || !row.change->primary || !RunsAsStored(*row.cell)) continue;
    const auto text = [](const std::string& some) { return some.empty() ? Json() : Json(some); };
    const Json numbers = DrawnRow(row, *version);
    figure.table.Add({row.cell->task + ", " + row.figure->keys.name + (IsPerplexity(row) ? " (%)" : ""),
                      row.cell->model, text(version->plan), text(version->method), text(version->calibration),
                      numbers["quantized_bits"], numbers["bits"], NumberOrNull(version->megabytes),
                      NumberOrNull(row.figure->value), numbers["change"], numbers["low"], numbers["high"],
                      VerdictWord(*row.change), row.cell->figures.count});
    drawn.push_back(row);
  }
  AddFindings(drawn, figure);
  figure.caption = Formatted(
      "Change from {}, paired by window, sample or item, against bits per weight of all tensors, with scales and "
      "what stays unquantized. Perplexity in percent of the source's, other figures in their own unit. Bars are 95 % "
      "intervals; filled marks are significant (p < 0.05 after Holm over the primary figures of all tasks), others are "
      "not, "
      "or not tested. n: in the table.{}",
      sweep.comparisons.of_source, source);
  return figure;
}

}  // namespace

std::vector<FigureData> LossesOfMethods(const Material& material) {
  std::vector<FigureData> figures;
  for (const Sweep& sweep : material.sweeps) {
    if (sweep.versions.empty() || sweep.comparisons.of_source.empty()) continue;
    FigureData figure = FigureOfVersions(sweep);
    if (figure.table.rows.empty()) continue;
    if (!figures.empty()) figure.name = Formatted("methods:{}", figures.size() + 1);
    figures.push_back(std::move(figure));
  }
  return figures;
}

}  // namespace tare
