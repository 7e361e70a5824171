// SPDX-License-Identifier: Apache-2.0
// Intervals from drawing the units of paired runs again, as many as there are, with replacement: Efron's BCa, corrected
// for bias and acceleration (J. Am. Stat. Assoc. 82, 1987), as scipy.stats.bootstrap has it. With T of all units, T* of
// a draw, T_(i) of all units but one and their mean T_(.):
//
//   z0 = Phi^-1(share of T* below T, of those equal to T the half)
//   a  = sum (T_(.) - T_(i))^3 / (6 (sum (T_(.) - T_(i))^2)^1.5)
//   ends: the quantiles of T* at Phi(z0 + (z0 + z) / (1 - a (z0 + z))), z = Phi^-1(0.025) and Phi^-1(0.975)
//
// Draws are made one after the other from the seed: the same on any machine, and with any number of threads. All
// intervals of one seed draw the same units.
#pragma once

#include <cstdint>
#include <optional>

#include "experiments/significance/accuracy.h"
#include "experiments/significance/paired_runs.h"

namespace tare {

struct Resampling {
  int draws = 10000;  // ends are then known to a few per cent of the interval's length
  uint64_t seed = 1;
};

// 95 %, of T. Nothing below kFewestWindows units, or where no unit varies.
std::optional<Interval> BcaInterval(const PairedRuns& runs, const Resampling& resampling);

}  // namespace tare
