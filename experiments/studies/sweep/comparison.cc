// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/comparison.h"

#include <algorithm>

#include "experiments/significance/distributions.h"

namespace tare {
namespace {

using RunsOfPair = std::vector<const Figure*>;

// Items that every run answered: the differences of their scores.
std::optional<OutcomeChanges> SharedItems(const RunsOfPair& runs, const std::vector<double>& signs) {
  const size_t n = runs[0]->outcomes.size();
  if (n == 0 || std::ranges::any_of(runs, [&](const Figure* run) { return run->outcomes.size() != n; })) return {};
  OutcomeChanges items;
  for (size_t i = 0; i < n; ++i) {
    int difference = 0;
    for (size_t r = 0; r < runs.size(); ++r)
      difference += static_cast<int>(signs[r]) * (runs[r]->outcomes[i] == '1' ? 1 : 0);
    items.Add(difference);
  }
  return items;
}

PairedRuns OfItems(const RunsOfPair& runs, const std::vector<double>& signs) {
  PairedRuns paired{.counts = std::vector<double>(runs[0]->outcomes.size(), 1.0), .sums = {}, .signs = signs};
  for (const Figure* run : runs) {
    std::vector<double>& scores = paired.sums.emplace_back();
    for (const char outcome : run->outcomes) scores.push_back(outcome == '1' ? 1 : 0);
  }
  return paired;
}

// Empty if the runs did not score the same tokens.
std::optional<PairedRuns> SharedWindows(const RunsOfPair& runs, const std::vector<double>& signs) {
  PairedRuns paired{.counts = runs[0]->windows.counts, .sums = {}, .signs = signs, .of_mean = runs[0]->keys.of_mean};
  for (const Figure* run : runs) {
    if (run->windows.counts != paired.counts || paired.counts.empty()) return std::nullopt;
    paired.sums.push_back(run->windows.sums);
  }
  return paired;
}

void CompareItems(const RunsOfPair& runs, const std::vector<double>& signs, const Resampling& resampling,
                  Comparison& c) {
  const OutcomeChanges& items = *c.items;
  if (items.n > 1) c.error = items.StandardError();
  const bool closed = runs.size() == 2 || items.gained + items.lost < kFewItems;
  c.interval = closed ? items.BonettPrice() : BcaInterval(OfItems(runs, signs), resampling);
  c.p = McNemarExact(items.gained, items.lost);
  c.detectable = SmallestDetectable(items.MeanSquare(), items.n);
  c.for_half = ItemsToShow(*c.detectable / 2, items.MeanSquare());
}

void CompareWindows(const PairedRuns& runs, const Resampling& resampling, Comparison& c) {
  c.error = PairedError(runs);
  if (!c.error) return;
  c.interval = BcaInterval(runs, resampling);
  if (*c.error > 0) c.p = StudentTwoSided(c.value / *c.error, static_cast<int>(runs.Units()) - 1);
  if (*c.error == 0 && c.value == 0) c.p = 1;
  c.detectable = SmallestDetectable(*c.error);
  c.for_half = 4 * static_cast<int64_t>(runs.Units());
}

// Whether the cell has 16 bits and nothing else that changes the model (as f32+sink does).
bool IsExact(const SweepCell& cell) {
  const Plan plan = Plan::Parse(cell.Plan());
  return std::ranges::all_of(plan.rules(), &Rule::Exempts);
}

// The cell of 16 bits that a cell's change starts from; null for such a cell itself, and if there is none.
const SweepCell* BaselineOf(const std::vector<SweepCell>& cells, const SweepCell& cell) {
  if (IsExact(cell)) return nullptr;
  const auto found = std::ranges::find_if(cells, [&](const SweepCell& c) {
    return IsExact(c) && c.model == cell.model && c.task == cell.task && !c.Executed();
  });
  return found == cells.end() ? nullptr : &*found;
}

// The first model's cell for the same task and plan; null for the first model's own, and if there is none.
const SweepCell* SameOfFirst(const std::vector<SweepCell>& cells, const SweepCell& cell) {
  if (cell.model == cells.front().model) return nullptr;
  const auto found = std::ranges::find_if(cells, [&](const SweepCell& c) {
    return c.model == cells.front().model && c.task == cell.task && c.Plan() == cell.Plan() &&
           c.Executed() == cell.Executed();
  });
  return found == cells.end() ? nullptr : &*found;
}

// Null where there is none.
const Comparison* Find(const std::vector<Comparison>& comparisons, size_t cell, size_t figure) {
  const auto found =
      std::ranges::find_if(comparisons, [&](const Comparison& c) { return c.cell == cell && c.figure == figure; });
  return found == comparisons.end() ? nullptr : &*found;
}

// Over the comparisons that the table shows.
void AddHolmOfShown(const std::vector<SweepCell>& cells, std::vector<Comparison>& comparisons) {
  std::vector<Comparison*> shown;
  for (Comparison& c : comparisons) {
    if (cells[c.cell].figures.list[c.figure].keys.in_tables != nullptr) shown.push_back(&c);
  }
  AddHolm(shown);
}

}  // namespace

Comparison Compare(const std::vector<const Figure*>& runs, const std::vector<double>& signs,
                   const Resampling& resampling) {
  Comparison c;
  for (size_t r = 0; r < runs.size(); ++r) c.value += signs[r] * runs[r]->value;
  if (const std::optional<PairedRuns> windows = SharedWindows(runs, signs)) {
    CompareWindows(*windows, resampling, c);
  } else if (c.items = SharedItems(runs, signs); c.items) {
    CompareItems(runs, signs, resampling, c);
  }
  return c;
}

void AddHolm(const std::vector<Comparison*>& comparisons) {
  std::vector<Comparison*> tested;
  std::vector<double> p;
  for (Comparison* c : comparisons) {
    if (!c->p) continue;
    tested.push_back(c);
    p.push_back(*c->p);
  }
  const std::vector<double> adjusted = Holm(p);
  for (size_t i = 0; i < tested.size(); ++i) tested[i]->p_holm = adjusted[i];
}

Comparisons CompareCells(const std::vector<SweepCell>& cells, const Resampling& resampling) {
  Comparisons all;
  for (size_t c = 0; c < cells.size(); ++c) {
    const SweepCell* const baseline = BaselineOf(cells, cells[c]);
    if (baseline == nullptr) continue;
    const SweepCell* const other = SameOfFirst(cells, cells[c]);
    const SweepCell* const others_baseline = other == nullptr ? nullptr : BaselineOf(cells, *other);
    for (size_t i = 0; i < cells[c].figures.list.size(); ++i) {
      const auto of = [i](const SweepCell& cell) { return &cell.figures.list[i]; };
      const auto add = [&](std::vector<Comparison>& list, const RunsOfPair& runs, const std::vector<double>& signs) {
        list.push_back(Compare(runs, signs, resampling));
        list.back().cell = c;
        list.back().figure = i;
      };
      add(all.changes, {of(*baseline), of(cells[c])}, {-1, 1});
      if (others_baseline == nullptr) continue;
      add(all.drops, {of(*others_baseline), of(*other), of(*baseline), of(cells[c])}, {1, -1, -1, 1});
      all.drops.back().against = other->model;
    }
  }
  AddHolmOfShown(cells, all.changes);
  AddHolmOfShown(cells, all.drops);
  return all;
}

std::vector<SweepFigure> FiguresOf(const std::vector<SweepCell>& cells, const Comparisons& comparisons) {
  std::vector<SweepFigure> figures;
  for (size_t c = 0; c < cells.size(); ++c) {
    for (size_t i = 0; i < cells[c].figures.list.size(); ++i)
      figures.push_back(
          {&cells[c], &cells[c].figures.list[i], Find(comparisons.changes, c, i), Find(comparisons.drops, c, i)});
  }
  return figures;
}

}  // namespace tare
