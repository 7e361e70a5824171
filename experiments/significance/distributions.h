// SPDX-License-Identifier: Apache-2.0
// Distributions, as Boost.Math has them. Boost.Math is a large set of templates, so only this source includes it.
#pragma once

#include <cstdint>

namespace tare {

// The standard normal: P(Z <= z), and the z below which a share lies (0 < share < 1).
double NormalBelow(double z);
double NormalQuantile(double share);

// P(|T| >= |t|) of Student's t with that many degrees of freedom (at least 1).
double StudentTwoSided(double t, int degrees);

// The t that a share of Student's with that many degrees of freedom (at least 1) lies below (0 < share < 1).
double StudentQuantile(double share, int degrees);

// P(X >= x) of chi-squared with that many degrees of freedom (at least 1), x not below 0.
double ChiSquaredAbove(double x, int degrees);

// P(K <= k) of n tosses of a fair coin, 0 <= k <= n.
double FairTossesAtMost(int64_t k, int64_t n);

}  // namespace tare
