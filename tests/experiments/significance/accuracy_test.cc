// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/accuracy.h"

#include <cmath>

#include <gtest/gtest.h>

#include "experiments/significance/draws.h"

namespace tare::accuracy_test {
namespace {

OutcomeChanges ChangesOf(std::string_view before, std::string_view after) {  // '1' marks a right item
  OutcomeChanges changes;
  for (size_t i = 0; i < before.size(); ++i) changes.Add(after[i] - before[i]);
  return changes;
}

// 81 of 263, the example of Newcombe (Stat. Med. 17, 1998), method 3: 0.2553 to 0.3662; 0 of 10 and 3 of 3 by the
// formula.
TEST(Accuracy, WilsonsInterval) {
  const Interval some = WilsonInterval(81, 263), none = WilsonInterval(0, 10), all = WilsonInterval(3, 3);
  EXPECT_NEAR(some.low, 0.2553, 5e-5);
  EXPECT_NEAR(some.high, 0.3662, 5e-5);
  EXPECT_EQ(none.low, 0);
  EXPECT_NEAR(none.high, 0.2775, 5e-5);
  EXPECT_NEAR(all.low, 0.4385, 5e-5);
  EXPECT_EQ(all.high, 1);
}

// d = 0 -1 0 +1 -1, mean -0.2, s^2 = (3 - 5 * 0.04) / 4 = 0.7.
TEST(Accuracy, ChangesArePairedByItem) {
  const OutcomeChanges changes = ChangesOf("11010", "10001");
  EXPECT_EQ(changes.gained, 1);
  EXPECT_EQ(changes.lost, 2);
  EXPECT_NEAR(changes.StandardError(), std::sqrt(0.7 / 5), 1e-15);
  EXPECT_TRUE(std::isnan(ChangesOf("1", "0").StandardError()));
}

// g = 2/7, l = 3/7: -1/7 -+ 1.96 sqrt((5/7 - 1/49) / 7).
TEST(Accuracy, AChangeOfFewItemsHasAnInterval) {
  const Interval interval = ChangesOf("11010", "10001").BonettPrice();
  EXPECT_NEAR(interval.low, -1.0 / 7 - 1.959964 * std::sqrt((5.0 / 7 - 1.0 / 49) / 7), 1e-6);
  EXPECT_NEAR(interval.high, -1.0 / 7 + 1.959964 * std::sqrt((5.0 / 7 - 1.0 / 49) / 7), 1e-6);
  EXPECT_NEAR(ChangesOf("11010", "10001").BonettPrice(0.9).high,
              -1.0 / 7 + 1.644854 * std::sqrt((5.0 / 7 - 1.0 / 49) / 7), 1e-6);
  // Nothing changed in a hundred items: not "+0.000 +/- 0.000".
  const Interval same = OutcomeChanges{.n = 100}.BonettPrice();
  EXPECT_NEAR(same.high, 0.0272, 5e-5);
  EXPECT_EQ(same.low, -same.high);
}

// d = 2 -1 0 0, as between two models: sum 1, squares 5; s^2 = (5 - 1/4) / 3. With +1 and -1: 1/6 -+ 1.96 sqrt((7/6 -
// 1/36) / 6).
TEST(Accuracy, DifferencesOfTwoModels) {
  OutcomeChanges changes;
  for (const int d : {2, -1, 0, 0}) changes.Add(d);
  EXPECT_EQ(changes.gained, 1);
  EXPECT_EQ(changes.lost, 1);
  EXPECT_NEAR(changes.StandardError(), std::sqrt(4.75 / 3 / 4), 1e-15);
  EXPECT_NEAR(changes.MeanSquare(), 7.0 / 6, 1e-15);
  EXPECT_NEAR(changes.BonettPrice().high, 1.0 / 6 + 1.959964 * std::sqrt((7.0 / 6 - 1.0 / 36) / 6), 1e-6);
}

// Shares of intervals that hold the truth, and their mean length / that of 1.96 true standard errors to either side;
// without clusters and over them. Each cluster of five has a probability of its own, 0.6 -+ spread.
struct Coverage {
  double apart = 0, over_clusters = 0, length = 0;
};
Coverage CoverageOf(double spread) {
  constexpr int kRuns = 2000, kClusters = 40, kItems = 5;
  Draws draws(7);
  const auto right_with = [&](double p) { return static_cast<double>(draws.Below(1'000'000)) < p * 1e6; };
  Coverage coverage;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> right(kClusters), items(kClusters, kItems);
    int64_t all = 0;
    for (double& of_cluster : right) {
      const double p = 0.6 + (draws.Below(2) == 0 ? spread : -spread);
      for (int i = 0; i < kItems; ++i) of_cluster += right_with(p) ? 1 : 0;
      all += static_cast<int64_t>(of_cluster);
    }
    const Interval apart = WilsonInterval(all, kClusters * kItems), over = ClusteredInterval(right, items);
    coverage.apart += (apart.low <= 0.6 && 0.6 <= apart.high ? 1.0 : 0.0) / kRuns;
    coverage.over_clusters += (over.low <= 0.6 && 0.6 <= over.high ? 1.0 : 0.0) / kRuns;
    coverage.length += (over.high - over.low) / kRuns;
  }
  // Items of a cluster correlate by spread^2 / 0.24.
  const double design = 1 + (kItems - 1) * spread * spread / 0.24;
  coverage.length /= 2 * 1.96 * std::sqrt(0.24 * design / (kClusters * kItems));
  return coverage;
}

TEST(Accuracy, ClustersOfKnownVarianceAreCovered) {
  const Coverage dependent = CoverageOf(0.3), independent = CoverageOf(0);
  EXPECT_LT(dependent.apart, 0.83);  // 0.785: as if independent, errors are too small by sqrt(2.5)
  EXPECT_NEAR(dependent.over_clusters, 0.95, 0.015);
  EXPECT_NEAR(dependent.length, 1, 0.06);
  EXPECT_NEAR(independent.apart, 0.95, 0.015);
  EXPECT_GT(independent.over_clusters, 0.945);
  EXPECT_NEAR(independent.length, 1.06, 0.06);  // never narrower than without clusters
}

TEST(Accuracy, ClustersAtTheEdges) {
  const Interval single = ClusteredInterval({1, 0, 1}, {1, 1, 1}), wilson = WilsonInterval(2, 3);
  EXPECT_EQ(single.low, wilson.low);
  EXPECT_EQ(single.high, wilson.high);
  EXPECT_EQ(ClusteredInterval({5, 5, 5}, {5, 5, 5}).low, WilsonInterval(3, 3).low) << "three that agree, not fifteen";
  EXPECT_EQ(ClusteredInterval({0, 0}, {4, 4}).low, 0);
  EXPECT_LT(ClusteredInterval({4}, {8}).low, 0.1) << "of one cluster hardly anything is known";
}

TEST(Shown, TwoDigitsOfTheError) {
  EXPECT_EQ(WithError(0.7104, 0.0456, ".4f"), "0.710 +/- 0.046");
  EXPECT_EQ(WithError(0.7104, 0.00456, ".4f"), "0.7104 +/- 0.0046");
  EXPECT_EQ(WithError(0.7104, 0.000456, ".4f"), "0.7104 +/- 0.0005");     // no more than the format has
  EXPECT_EQ(WithError(1.00123, 0.00042, ".3f"), "1.00123 +/- 0.00042");   // which it would round to 0
  EXPECT_EQ(WithError(1.00123, 0.0000000042, ".3f"), "1.001 +/- 0.000");  // of rounding
  EXPECT_EQ(WithInterval(0.00171, {0.00122, 0.00221}, "+.3f"), "+0.00171 [+0.00122, +0.00221]");
  EXPECT_EQ(WithError(29.4784, 1.26, "9.4f"), "     29.5 +/-       1.3");
  EXPECT_EQ(WithError(293.4, 26, ".3f"), "293 +/- 26");
  EXPECT_EQ(WithError(-0.2, 0.153, "+.3f"), "-0.20 +/- 0.15");
  EXPECT_EQ(WithError(0.5, 0, ".3f"), "0.500 +/- 0.000");
}

TEST(Shown, PowersOfTen) {
  EXPECT_EQ(WithError(1.5713e-3, 2.86e-5, ".2e"), "1.57e-03 +/- 2.9e-05");
  EXPECT_EQ(WithError(1.5713e-3, 2.86e-4, "+.2e"), "+1.57e-03 +/- 2.9e-04");
  EXPECT_EQ(WithError(1.5713e-3, 2.86e-3, ".2e"), "1.6e-03 +/- 2.9e-03");
}

// Halves of 0.09 and 0.4: errors of 0.046 and 0.20.
TEST(Shown, Intervals) {
  EXPECT_EQ(WithInterval(0.71, {0.6145, 0.7945}, ".4f"), "0.710 [0.615, 0.794]");
  EXPECT_EQ(WithInterval(0, {-0.396, 0.396}, "+.3f"), "+0.00 [-0.40, +0.40]");
}

}  // namespace
}  // namespace tare::accuracy_test
