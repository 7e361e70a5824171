// SPDX-License-Identifier: Apache-2.0
#include "experiments/evidence/accuracy.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tare {
namespace {

// 81 of 263, the example of Newcombe (Stat. Med. 17, 1998), method 3: 0.2553 to 0.3662; 0 of 10 and 3 of 3 by the formula.
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
  // Nothing changed in a hundred items: not "+0.000 +/- 0.000".
  const Interval same = OutcomeChanges{.n = 100}.BonettPrice();
  EXPECT_NEAR(same.high, 0.0272, 5e-5);
  EXPECT_EQ(same.low, -same.high);
}

// d = 2 -1 0 0, as between two models: sum 1, squares 5; s^2 = (5 - 1/4) / 3. With +1 and -1: 1/6 -+ 1.96 sqrt((7/6 - 1/36) / 6).
TEST(Accuracy, DifferencesOfTwoModels) {
  OutcomeChanges changes;
  for (const int d : {2, -1, 0, 0}) changes.Add(d);
  EXPECT_EQ(changes.gained, 1);
  EXPECT_EQ(changes.lost, 1);
  EXPECT_NEAR(changes.StandardError(), std::sqrt(4.75 / 3 / 4), 1e-15);
  EXPECT_NEAR(changes.MeanSquare(), 7.0 / 6, 1e-15);
  EXPECT_NEAR(changes.BonettPrice().high, 1.0 / 6 + 1.959964 * std::sqrt((7.0 / 6 - 1.0 / 36) / 6), 1e-6);
}

}  // namespace
}  // namespace tare
