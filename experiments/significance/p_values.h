// SPDX-License-Identifier: Apache-2.0
// p-values of differences, and their correction for multiple comparisons.
#pragma once

#include <cstdint>
#include <vector>

namespace tare {

// A difference is called significant below it, after Holm.
inline constexpr double kLevel = 0.05;

// Of two runs over the same items, so many got better and so many worse: McNemar's test, exact, which is the sign test
// of the changed ones: twice P(K <= the fewer) of as many tosses of a fair coin, at most 1.
double McNemarExact(int64_t better, int64_t worse);

// Five changed items cannot make it significant, though all change alike (2 / 2^5); six can.
inline constexpr int64_t kFewestChanged = 6;

// Holm's step-down values (Scand. J. Stat. 6, 1979): of m, the k-th smallest p becomes the largest of (m - j + 1) p_j
// over j <= k, at most 1. Rejecting those below 0.05 errs anywhere at all with 5 % at most, whatever their dependence.
std::vector<double> Holm(const std::vector<double>& p);

}  // namespace tare
