// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/inference.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/significance/draws.h"
#include "experiments/significance/mean_error.h"

namespace tare::inference_test {
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

using ::testing::DoubleNear;
using ::testing::ElementsAre;

// By hand of few: of five all alike 2 x (1/2) / 2^5; of 15, 3 against 12: (C(15,0) + C(15,1) + C(15,2)) x 2 + C(15,3)
// = 2 x 121 + 455 over 2^15. Of many, near the exact test's 4.43e-6 (scipy 1.17.1: binomtest(59, 180)), and below it.
TEST(PValues, McNemarsTestWithTheMidP) {
  EXPECT_NEAR(McNemarMidP(0, 5), 1.0 / 32, 1e-16);
  EXPECT_NEAR(McNemarMidP(3, 12), 697.0 / 32768, 1e-16);
  EXPECT_LT(McNemarMidP(121, 59), 4.4344492637551645e-06);
  EXPECT_GT(McNemarMidP(121, 59), 3.2e-06);
  EXPECT_EQ(McNemarMidP(12, 3), McNemarMidP(3, 12));
  EXPECT_EQ(McNemarMidP(0, 0), 1);
  EXPECT_NEAR(McNemarMidP(4, 4), 1, 1e-15);
}

TEST(PValues, FewerThanFiveChangedShowNothing) {
  EXPECT_GT(McNemarMidP(0, kFewestChanged - 1), kLevel);
  EXPECT_LT(McNemarMidP(0, kFewestChanged), kLevel);
}

// 4 x 0.01, 3 x 0.02, then 2 x 0.03, which may not be below the one before, and 0.9.
TEST(PValues, HolmsSteps) {
  EXPECT_THAT(Holm({0.9, 0.02, 0.01, 0.028}), ElementsAre(DoubleNear(0.9, 1e-15), DoubleNear(0.06, 1e-15),
                                                          DoubleNear(0.04, 1e-15), DoubleNear(0.06, 1e-15)));
  EXPECT_THAT(Holm({0.5, 0.6}), ElementsAre(1.0, 1.0));
  EXPECT_THAT(Holm({}), ElementsAre());
}

// The roots of the header's equation by scipy.optimize.brentq.
TEST(Power, SmallestDifference) {
  EXPECT_NEAR(SmallestDetectable(0.2, 100), 0.1238193314844138, 1e-12);
  EXPECT_NEAR(SmallestDetectable(0.02, 100), 0.07665613424628355, 1e-12);  // more than 2 of 100 must change
  // With four degrees of freedom, t is 2.776445105198 and 0.940964577237.
  EXPECT_NEAR((MeanError{.error = 0.5, .degrees = 4}.SmallestDetectable()), (2.776445105198 + 0.940964577237) / 2,
              1e-11);
}

TEST(Power, ItemsForADifference) {
  EXPECT_EQ(ItemsToShow(0.05, 0.2), 626);  // 625.55
  EXPECT_EQ(ItemsToShow(SmallestDetectable(0.2, 500), 0.2), 500);
}

// Drawn at the difference that it says: McNemar's test finds it in so many, less what whole numbers take.
TEST(Power, FourTestsOfFiveDetectIt) {
  constexpr int kItems = 1000, kRepetitions = 1000;
  const double d = SmallestDetectable(0.2, kItems), gained = (0.2 + d) / 2;
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> uniform;
  int found = 0;
  for (int r = 0; r < kRepetitions; ++r) {
    int better = 0, worse = 0;
    for (int i = 0; i < kItems; ++i) {
      const double u = uniform(random);
      better += u < gained;
      worse += u >= gained && u < 0.2;
    }
    found += McNemarMidP(better, worse) < kLevel;
  }
  EXPECT_NEAR(found / double{kRepetitions}, 0.79, 0.04);
}

// scipy 1.17.1: norm.cdf, norm.ppf.
TEST(Distributions, TheNormal) {
  EXPECT_NEAR(NormalBelow(-1.5), 0.06680720126885807, 1e-15);
  EXPECT_NEAR(NormalBelow(0.3), 0.6179114221889526, 1e-15);
  EXPECT_NEAR(NormalQuantile(0.8), 0.8416212335729143, 1e-14);
  EXPECT_EQ(NormalQuantile(0.5), 0);
}

// Quantiles as tables print them: 97.5 % of 1, 2, 7 and 8 degrees of freedom, 99.5 % of 31; and scipy's 2 t.sf(2.5, 9).
TEST(Distributions, StudentsTails) {
  EXPECT_NEAR(StudentTwoSided(12.7062, 1), 0.05, 1e-6);
  EXPECT_NEAR(StudentTwoSided(4.30265, 2), 0.05, 1e-6);
  EXPECT_NEAR(StudentTwoSided(-2.364624, 7), 0.05, 1e-6);
  EXPECT_NEAR(StudentTwoSided(2.306004, 8), 0.05, 1e-6);
  EXPECT_NEAR(StudentTwoSided(2.744042, 31), 0.01, 1e-6);
  EXPECT_NEAR(StudentTwoSided(2.5, 9), 0.033861827682985735, 1e-15);
  EXPECT_EQ(StudentTwoSided(0, 5), 1);
}

// exp(-x / 2) of 2 degrees; quantiles as tables print them: 95 % of 1, 4 and 9.
TEST(Distributions, StudentsQuantiles) {
  EXPECT_NEAR(StudentQuantile(0.975, 1), 12.7062, 1e-4);
  EXPECT_NEAR(StudentQuantile(0.975, 49), 2.00958, 1e-5);
  EXPECT_NEAR(StudentTwoSided(StudentQuantile(0.9, 7), 7), 0.2, 1e-12);
}

TEST(Distributions, ChiSquaredsTail) {
  EXPECT_NEAR(ChiSquaredAbove(3, 2), std::exp(-1.5), 1e-15);
  EXPECT_NEAR(ChiSquaredAbove(3.841459, 1), 0.05, 1e-7);
  EXPECT_NEAR(ChiSquaredAbove(9.487729, 4), 0.05, 1e-7);
  EXPECT_NEAR(ChiSquaredAbove(16.918978, 9), 0.05, 1e-7);
  EXPECT_EQ(ChiSquaredAbove(0, 3), 1);
}

// (1 + 15 + 105 + 455) / 2^15
TEST(Distributions, FairTosses) {
  EXPECT_NEAR(FairTossesAtMost(3, 15), 576.0 / 32768, 1e-16);
  EXPECT_NEAR(FairTossesAtMost(0, 5), 1.0 / 32, 1e-16);
  EXPECT_EQ(FairTossesAtMost(0, 0), 1);
}

}  // namespace
}  // namespace tare::inference_test
