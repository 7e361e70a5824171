// SPDX-License-Identifier: Apache-2.0
// How surprising a difference is where there is none, and how much less so beside many others.
#pragma once

#include <vector>

namespace tare {

// P(|T| >= |t|) of Student's t with so many degrees of freedom (at least 1): the finite series of Abramowitz and Stegun
// 26.7.3 and 26.7.4, to 1e-14 of 1.
double StudentTwoSided(double t, int degrees);

// Holm's step-down values (Scand. J. Stat. 6, 1979): of m, the k-th smallest p becomes the largest of (m - j + 1) p_j over
// j <= k, at most 1. Rejecting those below 0.05 errs anywhere at all with 5 % at most, whatever their dependence.
std::vector<double> Holm(const std::vector<double>& p);

}  // namespace tare
