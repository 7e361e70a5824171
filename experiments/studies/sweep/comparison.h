// SPDX-License-Identifier: Apache-2.0
// Compares the cells of a sweep, figure by figure: how much a plan changes the figure from 16 bits of the same model,
// and how much more it changes than the first model's (the difference of their drops). Of versions of one model
// (SweepOptions::source) a change is from that model, and a difference is from the first version. Both are paired by
// the items or windows that the runs share, and both come with their significance:
//
//             error            95 % interval                     p of no difference
//   items     s(d) / sqrt(n)   Bonett and Price                  McNemar's, mid-p
//   drops     of a difference of drops where kFewestOfDrops items differ or more, as windows (independent units)
//   windows   significance/mean_error.h gives all three, of paired runs; and samples, where items share some
//             (tasks/groups.h)
//
// p_holm is Holm's over the changes of each task's primary figure (TaskKind::figures), or over their differences of
// drops; other figures have no p_holm. A divergence cannot be 0, so that it changed from 0 has no p. One pair of models
// is one sample of training: a difference applies to these two checkpoints, not to their architectures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/significance/mean_error.h"
#include "experiments/significance/p_values.h"
#include "experiments/studies/sweep/sweep.h"

namespace tare {

// Of fewer, which are mostly unchanged, the mean is not near a normal distribution.
inline constexpr int64_t kFewestOfDrops = 10;

struct Comparison {
  size_t cell = 0, figure = 0;  // the quantized run's index among the cells, and its figure's
  std::string against;          // for a difference of drops, the first model
  double value = 0;
  std::optional<double> error;
  std::optional<Interval> interval;
  std::optional<OutcomeChanges> items;  // gained and lost
  std::optional<double> p, p_holm;
  bool primary = true;               // whether it is of its task's primary figure
  bool few_units = false;            // too few windows or samples for an error
  int64_t windows = 0;               // of a text that the error is over; 0: other units, or no error
  int degrees = 0;                   // of freedom of these windows
  std::optional<double> detectable;  // with these items or windows (significance/p_values.h)
  std::optional<int64_t> for_half;   // items or windows that would show half of it

  bool Significant() const { return p_holm && *p_holm < kLevel; }
  // Too few items changed for any p below 0.05.
  bool TooFew() const { return primary && items && items->gained + items->lost < kFewestChanged; }
};

// sum_r sign_r x figure of run r, for one model over the same units; a change has signs -1 and 1. Items answered in all
// runs are compared by item, or by sample if they share some; others by window.
Comparison Compare(const std::vector<const Figure*>& runs, const std::vector<double>& signs);
// Sets p_holm of those that have a p.
void AddHolm(const std::vector<Comparison*>& comparisons);

struct Comparisons {
  std::vector<Comparison> changes, drops;  // in the order of the cells
  std::string of_source;                   // the model of which all are versions; "": none
  bool look_ahead = false;                 // whether a plan among them looks ahead
};
Comparisons CompareCells(const std::vector<SweepCell>& cells);

// A figure of a cell, its change from 16 bits, and how much more it changed than the first model's; null if there is
// none.
struct SweepFigure {
  const SweepCell* cell = nullptr;
  const Figure* figure = nullptr;
  const Comparison *change = nullptr, *drop = nullptr;

  bool InTables() const { return figure->keys.in_tables != nullptr; }
};
// All of them, in the order of the cells.
std::vector<SweepFigure> FiguresOf(const std::vector<SweepCell>& cells, const Comparisons& comparisons);

}  // namespace tare
