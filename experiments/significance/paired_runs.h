// SPDX-License-Identifier: Apache-2.0
// Runs over the same units: windows of text, or items. Of window i of m_i tokens run r has the sum of losses s_ri; of
// an item m_i is 1 and s_ri its score. With M = sum m_i a run's mean is A_r = sum_i s_ri / M, and what is asked of the
// runs is
//
//   T = sum_r sign_r f(A_r)      f: the mean itself, or exp: perplexity
//
// for signs (-1, +1) how a figure changed from one run to the other, for (+1, -1, -1, +1) how much more one model's
// changed than another's. To first order T varies as the sum of
//
//   g_i = sum_r sign_r f'(A_r) (s_ri - A_r m_i)
//
// so that its error is sqrt(n / (n - 1) sum g_i^2) / M over n units. Difficulty that all runs share in a unit cancels,
// and the tokens of a window need not be independent of each other; windows must be.
#pragma once

#include <optional>
#include <vector>

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

// T of the sums over all units of each run, and of the counts.
double Contrast(const PairedRuns& runs, const std::vector<double>& totals, double count);
double Contrast(const PairedRuns& runs);

// Of fewer units the error itself is little known.
inline constexpr size_t kFewestWindows = 5;

// Of T; nothing below kFewestWindows units.
std::optional<double> PairedError(const PairedRuns& runs);

}  // namespace tare
