// SPDX-License-Identifier: Apache-2.0
// How much more a plan changes a figure of each model than the same figure of the first model, from sweeps of several
// models: the sweep table's "difference" (experiments/studies/sweep/comparison.h), with its 95 % interval and its
// verdict.
#include <algorithm>
#include <cmath>

#include "experiments/report/figures/figures.h"
#include "experiments/report/figures/sentences.h"
#include "experiments/text/grammar.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

constexpr size_t kSaid = 5;  // significant differences with a sentence of their own; the table has all

// With one accuracy of a task, the one that it reports; table.csv has all.
std::vector<SweepFigure> DifferencesRows(const Sweep& sweep) {
  std::vector<SweepFigure> rows = sweep.Figures();
  std::erase_if(rows, [](const SweepFigure& row) {
    return row.drop == nullptr || row.change == nullptr || !row.cell->figures.Reports(row.figure->keys.name);
  });
  return rows;
}

const char* VerdictOf(const Comparison& drop) {
  return !drop.p_holm ? "not tested" : drop.Significant() ? "significant" : "not significant";
}

std::string PlanOf(const SweepCell& cell) { return cell.Plan() + (cell.Executed() ? " executed" : ""); }

std::string DifferencesSentence(const SweepFigure& row) {
  const double p = *row.drop->p_holm;
  return Formatted("{}, {} ({} after Holm).", PlanWords(*row.cell), MoreText(row),
                   p < 0.001 ? "p < 0.001" : Formatted("p = {:.2g}", p));
}

// A family without a significant difference says so, with how many were tested.
std::vector<std::string> FindingsOf(std::vector<SweepFigure> rows) {
  std::erase_if(rows, [](const SweepFigure& row) { return !row.drop->p_holm; });
  const size_t tested = rows.size();
  if (tested == 0) return {"No difference between the models' changes could be tested."};
  std::erase_if(rows, [](const SweepFigure& row) { return !row.drop->Significant(); });
  if (rows.empty())
    return {Formatted("The models' changes do not differ significantly: of {} tested, none has p < 0.05 after Holm.",
                      Counted(static_cast<int64_t>(tested), "difference"))};
  std::ranges::stable_sort(rows, {}, [](const SweepFigure& row) { return *row.drop->p_holm; });
  std::vector<std::string> sentences;
  for (size_t i = 0; i < std::min(rows.size(), kSaid); ++i) sentences.push_back(DifferencesSentence(rows[i]));
  if (rows.size() > kSaid)
    sentences.push_back(
        Formatted("Of the {} differences between the models' changes that were tested, {} more are "
                  "significant; the figure's table has all.",
                  tested, rows.size() - kSaid));
  else if (tested > rows.size())
    sentences.push_back(
        Formatted("Of the {} differences between the models' changes that were tested, no other is "
                  "significant.",
                  tested));
  return sentences;
}

void AddDifferences(const Sweep& sweep, std::vector<FigureData>& figures) {
  const std::vector<SweepFigure> rows = DifferencesRows(sweep);
  if (rows.empty()) return;
  const std::string& first = rows.front().drop->against;
  FigureData figure{.name = figures.empty() ? "differences" : Formatted("differences:{}", figures.size() + 1),
                    .title = "Changes compared with those of " + first,
                    .table = {.columns = {{"panel", "task, figure"},
                                          {"plan", "plan"},
                                          {"model", "model"},
                                          {"change", "its change"},
                                          {"first", "change of " + first},
                                          {"difference", "difference"},
                                          {"low", "from"},
                                          {"high", "to"},
                                          {"p_holm", "p after Holm"},
                                          {"verdict", "verdict"},
                                          {"n", "n"}}},
                    .drawn = {"difference"},
                    .findings = FindingsOf(rows)};
  for (const SweepFigure& row : rows) {
    const Comparison& drop = *row.drop;
    const auto end = [&](double Interval::* of) { return drop.interval ? NumberOrNull((*drop.interval).*of) : Json(); };
    figure.table.Add({row.cell->task + ", " + row.figure->keys.name, PlanOf(*row.cell), row.cell->model,
                      NumberOrNull(row.change->value), NumberOrNull(row.change->value - drop.value),
                      NumberOrNull(drop.value), end(&Interval::low), end(&Interval::high),
                      drop.p_holm ? NumberOrNull(*drop.p_holm) : Json(), VerdictOf(drop), row.cell->figures.count});
  }
  figure.caption = Formatted(
      "A model's change from unquantized minus that of {} under the same plan, in each figure's own unit. Bars are 95 "
      "% "
      "intervals, paired by window, sample or item; filled marks are significant (p < 0.05 after Holm over the "
      "primary figures of all tasks). These models are one sample of training: differences apply to them alone. "
      "n: in the table.",
      first);
  figures.push_back(std::move(figure));
}

}  // namespace

std::vector<FigureData> Differences(const Material& material) {
  std::vector<FigureData> figures;
  for (const Sweep& sweep : material.sweeps) AddDifferences(sweep, figures);
  return figures;
}

}  // namespace tare
