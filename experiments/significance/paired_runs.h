// SPDX-License-Identifier: Apache-2.0
// Runs over the same units: windows of text, or items. For window i with m_i tokens, run r has the sum of losses s_ri;
// for an item m_i is 1 and s_ri its score. With M = sum m_i, a run's mean is A_r = sum_i s_ri / M, and the contrast of
// the runs is
//
//   T = sum_r sign_r f(A_r)      f: the mean itself, or exp: perplexity
//
// With signs (-1, +1) it is how a figure changed from one run to the other; with (+1, -1, -1, +1), how much more one
// model's changed than another's. To first order T varies as the sum of
//
//   g_i = sum_r sign_r f'(A_r) (s_ri - A_r m_i)
//
// so its error is sqrt(n / (n - 1) sum g_i^2) / M over n units. Difficulty that all runs share in a unit cancels. The
// tokens of a window may depend on each other, but windows must be independent.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/significance/accuracy.h"

namespace tare {

struct WindowLosses {
  std::vector<double> sums;    // [windows]
  std::vector<double> counts;  // [windows] of tokens
};

enum class OfMean { kItself, kExponential };

struct PairedRuns {
  std::vector<double> counts;             // m [units]
  std::vector<std::vector<double>> sums;  // s [runs][units]
  std::vector<double> signs;              // [runs]
  OfMean of_mean = OfMean::kItself;

  size_t Units() const { return counts.size(); }
};

// T for each run's sum over all units, and the total count.
double Contrast(const PairedRuns& runs, const std::vector<double>& totals, double count);
double Contrast(const PairedRuns& runs);

// With fewer units, the error itself is hardly known.
inline constexpr size_t kFewestWindows = 5;

// Standard error of T; empty with fewer than kFewestWindows units.
std::optional<double> PairedError(const PairedRuns& runs);

// Intervals from resampling the units of paired runs with replacement, as many as there are: Efron's BCa, corrected for
// bias and acceleration (J. Am. Stat. Assoc. 82, 1987), as in scipy.stats.bootstrap. With T over all units, T* over a
// draw, T_(i) over all units but one, and T_(.) the mean of these:
//
//   z0 = Phi^-1(share of T* below T, plus half of those equal to T)
//   a  = sum (T_(.) - T_(i))^3 / (6 (sum (T_(.) - T_(i))^2)^1.5)
//   ends: the quantiles of T* at Phi(z0 + (z0 + z) / (1 - a (z0 + z))), z = Phi^-1(0.025) and Phi^-1(0.975)
//
// Draws follow one after another from the seed, so they are the same on any machine and any number of threads. All
// intervals with the same seed draw the same units.
struct Resampling {
  int draws = 10000;  // then the ends are accurate to a few per cent of the interval's length
  uint64_t seed = 1;
};

// 95 % interval of T. Empty with fewer than kFewestWindows units, or if no unit varies.
std::optional<Interval> BcaInterval(const PairedRuns& runs, const Resampling& resampling);

}  // namespace tare
