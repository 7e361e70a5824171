// SPDX-License-Identifier: Apache-2.0
// Which site costs what: the changes of `tare sweep --each-site` at its fewest bits, the dearest sites first.
#include <algorithm>
#include <cmath>

#include "experiments/report/figures/figures.h"
#include "quant/base/formatted.h"
#include "quant/file/json.h"

namespace tare {
namespace {

std::string PanelOf(const SweepFigure& row) { return row.cell->task + ", " + row.figure->keys.name; }

// Of one site at the fewest bits, by what a task is known by: its first figure. None where there is one site.
std::vector<SweepFigure> RowsOf(const Sweep& sweep) {
  std::vector<SweepFigure> rows = sweep.Figures();
  std::erase_if(rows, [](const SweepFigure& row) {
    return row.change == nullptr || row.cell->row.site.contains(',') || row.figure != &row.cell->figures.list.front();
  });
  int fewest = 16;
  for (const SweepFigure& row : rows) fewest = std::min(fewest, row.cell->row.bits);
  std::erase_if(rows, [&](const SweepFigure& row) { return row.cell->row.bits != fewest; });
  const bool several = std::ranges::any_of(
      rows, [&](const SweepFigure& row) { return row.cell->row.site != rows.front().cell->row.site; });
  std::ranges::stable_sort(rows, std::greater(), [](const SweepFigure& row) { return std::fabs(row.change->value); });
  return several ? rows : std::vector<SweepFigure>();
}

void AddSweep(const Sweep& sweep, std::vector<FigureData>& figures) {
  const std::vector<SweepFigure> rows = RowsOf(sweep);
  if (rows.empty()) return;
  const int bits = rows.front().cell->row.bits;
  FigureData figure{
      .name = figures.empty() ? "attribution" : Formatted("attribution:{}", figures.size() + 1),
      .title = "Which site costs what",
      .caption = Formatted("Change from 16 bits with {} bits for one site alone, of each task's own figure; "
                           "thin bars are 95 %, paired.",
                           bits),
      .columns = {{"panel", "task"},
                  {"site", "site"},
                  {"model", "model"},
                  {"plan", "plan"},
                  {"change", "change"},
                  {"low", "from"},
                  {"high", "to"},
                  {"n", "n"}}};
  std::vector<std::string> known;
  for (const SweepFigure& row : rows) {
    const std::optional<Interval>& interval = row.change->interval;
    figure.rows.push_back({PanelOf(row), row.cell->row.site, row.cell->model, row.cell->Plan(),
                           NumberOrNull(row.change->value), NumberOrNull(interval ? interval->low : NAN),
                           NumberOrNull(interval ? interval->high : NAN), row.cell->figures.count});
    const std::string of = PanelOf(row) + " of " + row.cell->model;
    if (std::ranges::contains(known, of)) continue;  // sorted: the first is the dearest
    known.push_back(of);
    figure.caption += Formatted(" n: {} {} of {}.", row.cell->figures.count, row.cell->kind->unit, row.cell->task);
    figure.findings.push_back(Formatted("With {} bits the site that moves {} most is {}: by {:+.3g}.", bits, of,
                                        row.cell->row.site, row.change->value));
  }
  figures.push_back(std::move(figure));
}

}  // namespace

std::vector<FigureData> Attribution(const Material& material) {
  std::vector<FigureData> figures;
  for (const Sweep& sweep : material.sweeps) AddSweep(sweep, figures);
  return figures;
}

}  // namespace tare
