// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/p_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tare {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

// scipy 1.17.1: binomtest(3, 15), binomtest(59, 180), two-sided. The sides are alike, and all of few is 2 / 2^n.
TEST(PValues, McNemarsTestIsExact) {
  EXPECT_NEAR(McNemarExact(3, 12), 0.03515625, 1e-16);
  EXPECT_NEAR(McNemarExact(121, 59), 4.4344492637551645e-06, 1e-18);
  EXPECT_EQ(McNemarExact(12, 3), McNemarExact(3, 12));
  EXPECT_EQ(McNemarExact(0, 0), 1);
  EXPECT_EQ(McNemarExact(4, 4), 1);
}

TEST(PValues, FewerThanSixChangedShowNothing) {
  EXPECT_GT(McNemarExact(0, kFewestChanged - 1), kLevel);
  EXPECT_LT(McNemarExact(0, kFewestChanged), kLevel);
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
  EXPECT_NEAR(SmallestDetectable(0.5), (1.959963984540054 + 0.8416212335729143) / 2, 1e-14);
}

TEST(Power, ItemsForADifference) {
  EXPECT_EQ(ItemsToShow(0.05, 0.2), 626);  // 625.55
  EXPECT_EQ(ItemsToShow(SmallestDetectable(0.2, 500), 0.2), 500);
}

// Drawn at the difference that it says: McNemar's exact test, which is conservative, finds it in nearly so many.
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
    found += McNemarExact(better, worse) < kLevel;
  }
  EXPECT_NEAR(found / double{kRepetitions}, 0.78, 0.04);
}

}  // namespace

}  // namespace tare
