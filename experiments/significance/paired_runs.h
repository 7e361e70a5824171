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
// so its error is that of a mean of n g_i / M over n units (mean_error.h). Difficulty that all runs share in a unit
// cancels, and the tokens of a window may depend on each other in any way.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "experiments/significance/mean_error.h"

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
  Units kind = Units::kOfText;

  size_t Count() const { return counts.size(); }
};

// The mean of tokens' values, by the windows that hold them: windows [tokens].
PairedRuns ByWindow(std::span<const double> values, std::span<const size_t> windows);

double Contrast(const PairedRuns& runs);

// Of T; empty with fewer than kFewestUnits units. The error is 0 if no unit differs by more than rounding.
std::optional<MeanError> PairedError(const PairedRuns& runs);

}  // namespace tare
