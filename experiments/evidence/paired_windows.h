// SPDX-License-Identifier: Apache-2.0
// The standard error of a change of loss or perplexity between two runs over the same windows. Window i of m_i tokens has
// the losses a_i before and b_i after (sums); with M = sum m_i the means are A = sum a_i / M and B, and to first order a
// change of f(B) - f(A) is the sum of
//
//   g_i = f'(B) (b_i - B m_i) - f'(A) (a_i - A m_i)
//
// so that its error is sqrt(n / (n - 1) sum g_i^2) / M over n windows. f is the mean itself or exp. What both runs find
// hard in a window cancels, and tokens of a window need not be independent of each other; windows must be.
#pragma once

#include <optional>
#include <vector>

namespace tare {

struct WindowLosses {
  std::vector<double> sums;    // [windows]
  std::vector<double> counts;  // [windows] of tokens
};

enum class OfMean { kItself, kExponential };

// Of fewer the error itself is little known.
inline constexpr size_t kFewestWindows = 5;

// Nothing below kFewestWindows, or where the runs did not score the same tokens.
std::optional<double> PairedWindowError(const WindowLosses& before, const WindowLosses& after, OfMean f);

}  // namespace tare
