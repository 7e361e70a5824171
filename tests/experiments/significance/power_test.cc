// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/power.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "experiments/significance/p_values.h"

namespace tare {
namespace {

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
TEST(Power, TheTestFindsItInFourOfFive) {
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
