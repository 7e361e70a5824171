// SPDX-License-Identifier: Apache-2.0
// Intervals for the accuracy of few items, for which s / sqrt(n) is no error bar: three right of three have s = 0. All
// are 95 %. And how figures are shown with their errors.
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

inline constexpr int64_t kFewItems = 5;

// The share of '1's.
double ShareRight(std::string_view outcomes);
// The standard error of the share of n independent items: s / sqrt(n), s^2 = n share (1 - share) / (n - 1); 0 of one.
double ShareError(double share, double n);

struct Interval {
  double low = 0, high = 0;
};

Interval WilsonInterval(int64_t right, int64_t n);
// Per cluster, the number of right items and of all items. With one item per cluster, the same as without clusters.
Interval ClusteredInterval(const std::vector<double>& right, const std::vector<double>& items);

// How scores of runs over the same items differ: by -1, 0 or 1 per item between two runs ('1' marks a right item); by
// -2 to 2 between the changes of two models.
struct OutcomeChanges {
  int64_t gained = 0, lost = 0, n = 0;  // items with a difference above 0, below 0, and all
  int64_t sum = 0, squares = 0;         // of the differences

  void Add(int difference);
  double StandardError() const;  // of the mean difference; NaN with fewer than two items
  double MeanSquare() const;     // with one more item gained and one more lost: (squares + 2) / (n + 2)
  Interval BonettPrice(double share = 0.95) const;  // with g - l = sum / (n + 2), and g + l = MeanSquare()
};

// Formats figures with no more digits than their error allows: two for the error, and the value to the same place.
//
//   0.7104 and 0.0456 by ".4f": "0.710 +/- 0.046"      1.5713e-03 and 2.86e-05 by ".2e": "1.57e-03 +/- 2.9e-05"
//
// A format is std::format's, ".3f", "+.3f" or ".2e". It gives the most digits, all of them if the error is 0; up
// to four more show an error that it would round to 0.
std::string NumberText(double value, std::string_view format);
// "0.710 +/- 0.046"; a sign in the format applies to the value only.
std::string WithError(double value, double error, std::string_view format);
// "0.71 [0.61, 0.79]", taking half of a 95 % interval / 1.96 as the error.
std::string WithInterval(double value, const Interval& interval, std::string_view format);
// A value beside a change that has this interval, to the same place: "29.33" for 29.3321 beside "1.69 [1.49, 1.90]".
std::string BesideInterval(double value, const Interval& interval, std::string_view format);

}  // namespace tare
