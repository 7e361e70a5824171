// SPDX-License-Identifier: Apache-2.0
// Distributions, p-values of differences, their correction for multiple comparisons, and statistical power.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/significance/mean_error.h"

namespace tare {

// Distributions, from Boost.Math. It is a large set of templates, so only this source includes it.
//
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

// A difference is significant if its p after Holm's correction is below this.
inline constexpr double kLevel = 0.05;

// What no p or interval here covers: they are of texts and items, for models as they are.
inline constexpr const char* kOneTraining =
    "These models are one sample of training: differences apply to them alone. Those of the architecture recur in "
    "several pairs with the same data, size and steps.";

// For two runs over the same items, of which `better` improved and `worse` got worse: McNemar's test with the mid-p,
// the sign test of the changed items: twice P(K < the smaller count) + P(K = it) / 2 in as many fair tosses. The exact
// test, with P(K <= it), rejects half as often as it says; this one 0.04 to 0.05 from ten changed items on, and never
// more (Fagerland, Lydersen and Laake, BMC Med. Res. Methodol. 13, 2013).
double McNemarMidP(int64_t better, int64_t worse);

// Four changed items cannot be significant, even if all change alike (1 / 2^4); five can.
inline constexpr int64_t kFewestChanged = 5;

// Holm's step-down values (Scand. J. Stat. 6, 1979): of m values, the k-th smallest p becomes the largest of (m - j +
// 1) p_j over j <= k, at most 1. Rejecting those below 0.05 makes any error at all with probability at most 5 %,
// however the tests depend on each other.
std::vector<double> Holm(const std::vector<double>& p);

// Statistical power: the smallest difference that a two-sided test at 5 % detects in 80 of 100 repetitions, and how
// many units another needs. By the normal approximation, z = Phi^-1(0.975) = 1.960 and y = Phi^-1(0.8) = 0.842.
//
// For paired items, d is the mean difference of their scores and q the mean square; for right and wrong, q is the share
// of items that changed (Connor, Biometrics 43, 1987):
//
//   d sqrt(n) = z sqrt(q) + y sqrt(q - d^2)
//
// q is as observed, with one more item gained and one more lost (accuracy.h). If d exceeds it, more items must have
// changed: then q = d, all in one direction. For means of windows q does not depend on d: d = (z + y) error, with z and
// y of Student's t.
double SmallestDetectable(double mean_square, int64_t items);
double SmallestDetectable(const MeanError& of);

// Items needed to detect d > 0, if they change as much as mean_square says.
int64_t ItemsToShow(double d, double mean_square);

}  // namespace tare
