// SPDX-License-Identifier: Apache-2.0
// Intervals for the accuracy of few items, where s / sqrt(n) is no error bar: three right of three have s = 0. All are
// 95 %.
//
//   one accuracy: Wilson's score interval (J. Am. Stat. Assoc. 22, 1927), z = 1.96,
//     (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)
//   of items in clusters, which share a draw and are not independent: with D = how much larger the variance of p is
//     than that of independent items (at least 1; estimated from sums of clusters, paired_runs.h), n / D for n and the
//     quantile of Student's t, clusters - 1, for z: Wilson's for surveys (Franco et al., J. Surv. Stat. Methodol. 7,
//     2019). If all are right or all wrong, D is unknown: n is the number of clusters
//   the change between two runs over the same items: Bonett and Price (J. Educ. Behav. Stat. 37, 2012), with one item
//     more gained and one more lost, g = (gained + 1)/(n + 2), l = (lost + 1)/(n + 2),
//     g - l +- z sqrt((g + l - (g - l)^2) / (n + 2))
//
// With fewer than kFewItems items of either kind (right, wrong; changed), an accuracy is shown with its interval, else
// with its standard error: the usual bound for the normal approximation.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tare {

inline constexpr int64_t kFewItems = 5;

struct Interval {
  double low = 0, high = 0;
};

Interval WilsonInterval(int64_t right, int64_t n);
// Of each cluster how many items are right, and how many it has. Clusters of one item each: as without clusters.
Interval ClusteredInterval(const std::vector<double>& right, const std::vector<double>& items);

// How the scores of runs over the same items differ: of two runs by -1, 0 or 1 in each item, '1' where it was right; of
// how much two models change, by -2 to 2.
struct OutcomeChanges {
  int64_t gained = 0, lost = 0, n = 0;  // items above 0, below, and all
  int64_t sum = 0, squares = 0;         // of the differences

  void Add(int difference);
  double StandardError() const;  // of their mean; NaN below two items
  double MeanSquare() const;     // with one item more gained and one more lost: (squares + 2) / (n + 2)
  Interval BonettPrice() const;  // g - l is sum / (n + 2), and g + l the mean square
};
// Both of one length.
OutcomeChanges ChangesOf(std::string_view before, std::string_view after);

}  // namespace tare
