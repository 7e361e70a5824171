// SPDX-License-Identifier: Apache-2.0
// Accuracy, perplexity and the other figures of tasks against bits, of sweeps of one site or of several together.
// Several sites one after the other are in the figure of attribution.
#include <algorithm>
#include <cmath>

#include "experiments/report/figures/figures.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

std::string PanelOf(const SweepFigure& row) {
  const std::string_view name = row.figure->keys.name;
  const std::string words = name == "acc"          ? ", share right"
                            : name == "perplexity" ? ", per token"
                            : name == "kld"        ? ", nats per token"
                                                   : ", " + std::string(name);
  return row.cell->task + words + (row.cell->Executed() ? " (executed)" : "");
}

std::string UnitOf(const SweepFigure& row) {
  const std::string name = row.figure->keys.name;
  return name == "acc" ? "share right" : name == "kld" ? "nats per token" : name;
}

std::string ScaleOf(const SweepCell& cell) {
  if (cell.row.granularity.empty()) return cell.row.format;
  const bool integers = cell.row.format.starts_with("int") || cell.row.format.starts_with("u");
  return "one scale per " + cell.row.granularity + (integers ? "" : ", " + cell.row.format);
}

// 95 %: of accuracies their own, of others the value's change from 16 bits.
std::pair<Json, Json> EndsOf(const SweepFigure& row) {
  if (const std::optional<Interval> interval = row.figure->OfItems()) return {interval->low, interval->high};
  if (row.change == nullptr || !row.change->interval) return {};
  const double before = row.figure->value - row.change->value;
  return {NumberOrNull(before + row.change->interval->low), NumberOrNull(before + row.change->interval->high)};
}

// At the fewest bits, the largest change of each model, and whether it is more than chance.
std::string FindingOf(const std::vector<SweepFigure>& rows, const std::string& panel) {
  int fewest = 16;
  for (const SweepFigure& row : rows) {
    if (PanelOf(row) == panel) fewest = std::min(fewest, row.cell->row.bits);
  }
  std::vector<const SweepFigure*> largest;  // per model
  for (const SweepFigure& row : rows) {
    if (PanelOf(row) != panel || row.cell->row.bits != fewest || row.change == nullptr) continue;
    const auto known =
        std::ranges::find(largest, row.cell->model, [](const SweepFigure* one) { return one->cell->model; });
    if (known == largest.end()) {
      largest.push_back(&row);
    } else if (std::fabs(row.change->value) > std::fabs((*known)->change->value)) {
      *known = &row;
    }
  }
  std::string text;
  for (const SweepFigure* row : largest) {
    text += text.empty() ? Formatted("{} with {} bits for {} changes by at most ", panel, fewest, row->cell->row.site)
                         : "; by ";
    text += Formatted("{:+.3g} to {:.4g} in {} ({}{})", row->change->value, row->figure->value, row->cell->model,
                      ScaleOf(*row->cell), row->change->Significant() ? ", significant" : "");
  }
  return text.empty() ? text : text + ".";
}

// acc_norm says what acc says, of endings of other lengths; it is in table.csv.
std::vector<SweepFigure> RowsOf(const Sweep& sweep) {
  std::vector<SweepFigure> rows = sweep.Figures();
  std::erase_if(rows, [](const SweepFigure& row) { return std::string_view(row.figure->keys.name) == "acc_norm"; });
  return rows;
}

void Know(const std::string& one, std::vector<std::string>& known) {
  if (!std::ranges::contains(known, one)) known.push_back(one);
}

void AddSweep(const Sweep& sweep, std::vector<FigureData>& figures) {
  const std::vector<SweepFigure> rows = RowsOf(sweep);
  std::vector<std::string> scales, panels, sites;  // each once, in their order
  for (const SweepFigure& row : rows) {
    Know(PanelOf(row), panels);
    if (row.cell->row.bits == 16) continue;
    Know(ScaleOf(*row.cell), scales);
    Know(row.cell->row.site, sites);
  }
  if (sites.size() != 1) return;  // or nothing but 16 bits
  FigureData figure{.name = figures.empty() ? "bits" : Formatted("bits:{}", figures.size() + 1),
                    .title = "Accuracy and perplexity against bits for " + sites[0],
                    .table = {.columns = {{"panel", "task"},
                                          {"model", "model"},
                                          {"scale", "scale"},
                                          {"bits", "bits"},
                                          {"value", "value"},
                                          {"low", "from"},
                                          {"high", "to"},
                                          {"n", "n"},
                                          {"unit", "unit"}}},
                    .drawn = {"value"}};
  for (const SweepFigure& row : rows) {
    const auto [low, high] = EndsOf(row);
    // 16 bits are where every line begins.
    for (const std::string& scale : row.cell->row.bits == 16 ? scales : std::vector{ScaleOf(*row.cell)})
      figure.table.Add({PanelOf(row), row.cell->model, scale, row.cell->row.bits, NumberOrNull(row.figure->value), low,
                        high, row.cell->figures.count, UnitOf(row)});
  }
  figure.caption = Formatted(
      "What low-bit {} cost: perplexity (no unit), divergence (nats per token), share of items right. Bars are 95 % "
      "intervals: a share's own (Wilson), for the others that of the change from 16 bits, paired by window (BCa). "
      "Significant: p < 0.05 after Holm over the sweep. n:",
      sites[0]);
  std::vector<std::string> counts;
  for (const std::string& panel : panels) {
    const auto row = std::ranges::find(rows, panel, PanelOf);
    Know(Formatted(" {} {} of {};", row->cell->figures.count, row->cell->kind->unit, row->cell->task), counts);
    if (const std::string finding = FindingOf(rows, panel); !finding.empty()) figure.findings.push_back(finding);
  }
  for (const std::string& count : counts) figure.caption += count;
  figure.caption.back() = '.';
  figures.push_back(std::move(figure));
}

}  // namespace

std::vector<FigureData> Bits(const Material& material) {
  std::vector<FigureData> figures;
  for (const Sweep& sweep : material.sweeps) AddSweep(sweep, figures);
  return figures;
}

}  // namespace tare
