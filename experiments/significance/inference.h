// SPDX-License-Identifier: Apache-2.0
// Distributions; intervals for accuracies of few items, where s / sqrt(n) is no error bar (three right of three have s
// = 0); p-values of differences, corrected for multiple comparisons; power; figures with errors. Intervals are 95 %:
//
//   one accuracy: Wilson's score interval (J. Am. Stat. Assoc. 22, 1927), z = 1.96,
//     (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)
//   of items in clusters, which share a draw and are not independent: let D be the variance of p relative to that of
//     independent items (at least 1; estimated from sums of clusters, mean_error.h). Replace n by n / D and z by the
//     quantile of Student's t with clusters - 1: Wilson's for surveys (Franco et al., J. Surv. Stat. Methodol. 7,
//     2019). If all are right or all wrong, D is unknown: n is the number of clusters
//   the change between two runs over the same items: Bonett and Price (J. Educ. Behav. Stat. 37, 2012), with one item
//     more gained and one more lost, g = (gained + 1)/(n + 2), l = (lost + 1)/(n + 2),
//     g - l +- z sqrt((g + l - (g - l)^2) / (n + 2))
//
// With fewer than kFewItems items of either kind (right, wrong; changed), an accuracy is shown with its interval, else
// with its standard error: the usual bound for the normal approximation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tare {

// Distributions, from Boost.Math, which this source alone includes. The standard normal: P(Z <= z); quantile (0 .. 1).
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

// ---- Intervals

inline constexpr int64_t kFewItems = 5;

// The share of '1's.
double ShareRight(std::string_view outcomes);
std::vector<double> ScoresOf(std::string_view outcomes);  // 1 for '1', else 0
// The standard error of the share of n independent items: s / sqrt(n), s^2 = n share (1 - share) / (n - 1); 0 of one.
double ShareError(double share, double n);

struct Interval {
  double low = 0, high = 0;
};

Interval WilsonInterval(int64_t right, int64_t n);
// Per cluster, the number of right items and of all items. With one item per cluster, the same as without clusters.
Interval ClusteredInterval(const std::vector<double>& right, const std::vector<double>& items);

// Differences of scores of the same items: -1, 0 or 1 between runs ('1': right); -2 to 2 between two models' changes.
struct OutcomeChanges {
  int64_t gained = 0, lost = 0, n = 0;  // items with a difference above 0, below 0, and all
  int64_t sum = 0, squares = 0;         // of the differences

  void Add(int difference);
  double StandardError() const;  // of the mean difference; NaN with fewer than two items
  double MeanSquare() const;     // with one more item gained and one more lost: (squares + 2) / (n + 2)
  Interval BonettPrice(double share = 0.95) const;  // with g - l = sum / (n + 2), and g + l = MeanSquare()
};

// ---- Tests

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

// Holm's step-down values (Scand. J. Stat. 6, 1979): of m, the k-th smallest p becomes the largest of (m - j + 1) p_j
// over j <= k, at most 1. Rejecting below 0.05 errs at all with probability at most 5 %, however tests depend.
std::vector<double> Holm(const std::vector<double>& p);

// Statistical power: the smallest difference that a two-sided test at 5 % detects in 80 of 100 repetitions, and how
// many units another needs. By the normal approximation, z = Phi^-1(0.975) = 1.960 and y = Phi^-1(0.8) = 0.842.
//
// For paired items, d is the mean difference of their scores and q the mean square; for right and wrong, q is the share
// of items that changed (Connor, Biometrics 43, 1987):
//
//   d sqrt(n) = z sqrt(q) + y sqrt(q - d^2)
//
// q is as observed, with one more item gained and one more lost. If d exceeds it, more items must have changed: then
// q = d, all in one direction. For means of windows see MeanError::SmallestDetectable.
double SmallestDetectable(double mean_square, int64_t items);

// Items needed to detect d > 0, if they change as much as mean_square says.
int64_t ItemsToShow(double d, double mean_square);

// ---- Texts

// Formats figures with no more digits than their error allows: two for the error, and the value to the same place.
//
//   0.7104 and 0.0456 by ".4f": "0.710 +/- 0.046"      1.5713e-03 and 2.86e-05 by ".2e": "1.57e-03 +/- 2.9e-05"
//
// ".3f", "+.3f" or ".2e", as std::format's: the most digits, all if the error is 0; up to four more show a small error.
std::string NumberText(double value, std::string_view format);
// "0.710 +/- 0.046"; a sign in the format applies to the value only.
std::string WithError(double value, double error, std::string_view format);
// "0.71 [0.61, 0.79]", taking half of a 95 % interval / 1.96 as the error.
std::string WithInterval(double value, const Interval& interval, std::string_view format);
// A value beside a change that has this interval, to the same place: "29.33" for 29.3321 beside "1.69 [1.49, 1.90]".
std::string BesideInterval(double value, const Interval& interval, std::string_view format);

}  // namespace tare
