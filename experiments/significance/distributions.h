// SPDX-License-Identifier: Apache-2.0
// Distributions, from Boost.Math. It is a large set of templates, so only this source includes it.
#pragma once

#include <cstdint>

namespace tare {

// The standard normal distribution: P(Z <= z), and its quantile (0 < share < 1).
double NormalBelow(double z);
double NormalQuantile(double share);

// P(|T| >= |t|) for Student's t with this many degrees of freedom (at least 1).
double StudentTwoSided(double t, int degrees);

// The quantile of Student's t with this many degrees of freedom (at least 1; 0 < share < 1).
double StudentQuantile(double share, int degrees);

// P(X >= x) for chi-squared with this many degrees of freedom (at least 1); x >= 0.
double ChiSquaredAbove(double x, int degrees);

// P(K <= k) for n tosses of a fair coin, 0 <= k <= n.
double FairTossesAtMost(int64_t k, int64_t n);

}  // namespace tare
