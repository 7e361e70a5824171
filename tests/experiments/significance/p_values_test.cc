// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/p_values.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare::p_values_test {
namespace {

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
  EXPECT_NEAR(SmallestDetectable({.error = 0.5, .degrees = 4}), (2.776445105198 + 0.940964577237) / 2, 1e-11);
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
}  // namespace tare::p_values_test
