// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/comparison.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/plan/presets.h"

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
  PairedRuns paired{
      .counts = std::vector<double>(runs[0]->outcomes.size(), 1.0), .signs = signs, .kind = Units::kIndependent};
  for (const Figure* run : runs) paired.sums.push_back(ScoresOf(run->outcomes));
  return paired;
}

// Empty if the runs did not score the same tokens.
std::optional<PairedRuns> SharedWindows(const RunsOfPair& runs, const std::vector<double>& signs) {
  const FigureKeys& keys = runs[0]->keys;
  if (!keys.windows) return std::nullopt;
  PairedRuns paired{
      .counts = runs[0]->windows.counts, .signs = signs, .of_mean = keys.of_mean, .kind = keys.windows->kind};
  for (const Figure* run : runs) {
    if (run->windows.counts != paired.counts || paired.counts.empty()) return std::nullopt;
    paired.sums.push_back(run->windows.sums);
  }
  return paired;
}

void CompareMeans(const PairedRuns& runs, Comparison& c) {
  const std::optional<MeanError> error = PairedError(runs);
  c.few_units = !error;
  if (!error) return;
  c.error = error->error;
  if (runs.kind == Units::kOfText) c.windows = static_cast<int64_t>(runs.Count());
  c.detectable = error->SmallestDetectable();
  c.for_half = 4 * static_cast<int64_t>(runs.Count());
  if (error->error > 0) {
    c.p = error->P(c.value);
    c.interval = error->Around(c.value);
  } else if (c.value == 0) {
    c.p = 1;
  }
}

void CompareItems(const RunsOfPair& runs, const std::vector<double>& signs, Comparison& c) {
  const OutcomeChanges& items = *c.items;
  const int64_t changed = items.gained + items.lost;
  if (runs.size() > 2 && changed >= kFewestOfDrops && items.n >= static_cast<int64_t>(kFewestUnits)) {
    CompareMeans(OfItems(runs, signs), c);
  } else {
    if (items.n > 1) c.error = items.StandardError();
    c.interval = items.BonettPrice();
    c.p = McNemarMidP(items.gained, items.lost);
  }
  c.detectable = SmallestDetectable(items.MeanSquare(), items.n);
  c.for_half = ItemsToShow(*c.detectable / 2, items.MeanSquare());
}

// The 90 % interval of how much worse the second run is: of perplexities as a share, on the scale of their logarithms.
std::optional<Interval> LossOf(const RunsOfPair& runs, const std::vector<double>& signs) {
  constexpr double kShare = 1 - 2 * kLevel;
  const FigureKeys& keys = runs[0]->keys;
  std::optional<Interval> ends;
  if (std::optional<PairedRuns> windows = SharedWindows(runs, signs)) {
    windows->of_mean = OfMean::kItself;
    const std::optional<MeanError> error = PairedError(*windows);
    if (error && error->error > 0) ends = error->Around(Contrast(*windows), kShare);
    if (error && error->error == 0 && Contrast(*windows) == 0) ends = Interval{0, 0};
  } else if (const std::optional<OutcomeChanges> items = SharedItems(runs, signs)) {
    ends = items->BonettPrice(kShare);
  }
  if (ends && keys.of_mean == OfMean::kExponential) return Interval{std::expm1(ends->low), std::expm1(ends->high)};
  return ends && keys.outcomes != nullptr ? Interval{-ends->high, -ends->low} : ends;
}

// All runs that differ from their reference are on one side of it (FigureKeys::of_same).
bool NeedsNoTest(const RunsOfPair& runs, const std::vector<double>& signs) {
  const std::optional<double> same = runs[0]->keys.of_same;
  if (!same) return false;
  bool added = false, subtracted = false;
  for (size_t r = 0; r < runs.size(); ++r) {
    if (runs[r]->value != *same) (signs[r] > 0 ? added : subtracted) = true;
  }
  return added != subtracted;
}

// The 16-bit cell that a change starts from, of the same model or of the source; null for itself and without one.
const SweepCell* BaselineOf(const std::vector<SweepCell>& cells, const SweepCell& cell) {
  const std::string model = cell.Source().empty() ? cell.model : cell.Source();
  if (cell.row.exact && cell.model == model) return nullptr;
  return FindWhere(cells, [&](const SweepCell& c) {
    return c.row.exact && c.model == model && c.task == cell.task && !c.Executed();
  });
}

// The cells for the same task and plan that differences of this one are from: the first model's; of versions those
// before it with its bits, or, where no other has these, the first version's. None for the source of all versions.
std::vector<const SweepCell*> ComparedWith(const std::vector<SweepCell>& cells, const SweepCell& cell) {
  const SweepCell* const first = FindWhere(cells, [](const SweepCell& c) { return c.model != c.Source(); });
  if (first == nullptr || cell.model == cell.Source()) return {};
  std::vector<const SweepCell*> of_first, of_bits;
  bool alone = true;
  for (const SweepCell& c : cells) {
    const bool same = c.task == cell.task && c.Plan() == cell.Plan() && c.Executed() == cell.Executed();
    if (!same || c.model == cell.model || c.model == c.Source()) continue;
    if (c.version && cell.version && c.version->Bits() == cell.version->Bits()) {
      alone = false;
      if (&c < &cell) of_bits.push_back(&c);
    }
    if (c.model == first->model) of_first.push_back(&c);
  }
  return alone && cell.model != first->model ? of_first : of_bits;
}

// Null where there is none.
const Comparison* Find(const std::vector<Comparison>& comparisons, size_t cell, size_t figure) {
  return FindWhere(comparisons, [&](const Comparison& c) { return c.cell == cell && c.figure == figure; });
}

}  // namespace

Comparison Compare(const std::vector<const Figure*>& runs, const std::vector<double>& signs) {
  Comparison c;
  for (size_t r = 0; r < runs.size(); ++r) c.value += signs[r] * runs[r]->value;
  if (const std::optional<PairedRuns> windows = SharedWindows(runs, signs)) {
    CompareMeans(*windows, c);
  } else if (c.items = SharedItems(runs, signs); c.items) {
    CompareItems(runs, signs, c);
  }
  if (NeedsNoTest(runs, signs)) c.p = std::nullopt;
  if (runs.size() == 2) c.loss = LossOf(runs, signs);
  return c;
}

Comparisons CompareCells(const std::vector<SweepCell>& cells) {
  Comparisons all{.changes = {},
                  .of_source = cells.empty() ? "" : cells.front().Source(),
                  .look_ahead = std::ranges::any_of(cells, [](const SweepCell& cell) { return cell.row.looks_ahead; }),
                  .recipes = std::ranges::any_of(cells, [](const SweepCell& cell) { return RecipeOf(cell.Plan()); })};
  for (size_t c = 0; c < cells.size(); ++c) {
    const SweepCell* const baseline = BaselineOf(cells, cells[c]);
    if (baseline == nullptr) continue;
    const std::vector<const SweepCell*> others = ComparedWith(cells, cells[c]);
    for (size_t i = 0; i < cells[c].figures.list.size(); ++i) {
      const auto of = [i](const SweepCell& cell) { return &cell.figures.list[i]; };
      const auto add = [&](std::vector<Comparison>& list, const RunsOfPair& runs, const std::vector<double>& signs) {
        list.push_back(Compare(runs, signs));
        list.back().cell = c;
        list.back().figure = i;
        list.back().primary = i == cells[c].figures.Primary();
      };
      add(all.changes, {of(*baseline), of(cells[c])}, {-1, 1});
      for (const SweepCell* const other : others) {
        const SweepCell* const from = BaselineOf(cells, *other);
        if (from == nullptr) continue;
        add(all.drops, {of(*from), of(*other), of(*baseline), of(cells[c])}, {1, -1, -1, 1});
        all.drops.back().against = other->model;
      }
    }
  }
  AddHolm(all.changes | std::views::filter(&Comparison::primary));
  AddHolm(all.drops | std::views::filter(&Comparison::primary));
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

std::vector<SweepFigure> DifferencesOf(const std::vector<SweepCell>& cells, const Comparisons& comparisons) {
  std::vector<SweepFigure> differences;
  for (const Comparison& d : comparisons.drops)
    differences.push_back(
        {&cells[d.cell], &cells[d.cell].figures.list[d.figure], Find(comparisons.changes, d.cell, d.figure), &d});
  return differences;
}

double ParseMargin(std::string_view text) {
  const std::string_view number = text.substr(0, text.size() - (text.ends_with('%') ? 1 : 0));
  const double percent = number == text ? 0 : ParseNumber<double>(number).value_or(0);
  if (!(percent > 0 && percent < 100))
    FailUsage("--equivalent: got '{}', expected a percentage above 0 and below 100; try 0.5%", text);
  return percent / 100;
}

const char* VerdictAt(double margin, const Comparison& c) {
  if (c.loss && c.loss->low > margin) return "worse";
  if (c.loss && c.loss->high < -margin) return "better";
  return c.loss && c.loss->low > -margin && c.loss->high < margin ? "lossless" : "not shown";
}

std::string EquivalenceText(double margin, const Comparison& c, const FigureKeys& figure) {
  const double scale = figure.of_same ? 1 : 100;
  const char* const unit = figure.of_same ? "nats per token" : figure.outcomes != nullptr ? "points" : "%";
  const std::string verdict = VerdictAt(margin, c), within = Formatted("{:g} {}", scale * margin, unit);
  std::string text = verdict == "lossless"    ? "lossless within " + within
                     : verdict != "not shown" ? verdict + " by more than " + within
                     : c.Significant()        ? "a difference is shown, equivalence within " + within + " is not"
                     : c.p_holm               ? "neither a difference nor equivalence within " + within + " is shown"
                                              : "equivalence within " + within + " is not shown";
  if (c.loss) text += Formatted(" ({:.3g} to {:.3g})", scale * c.loss->low, scale * c.loss->high);
  return text;
}

}  // namespace tare
