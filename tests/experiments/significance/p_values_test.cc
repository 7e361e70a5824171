// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/p_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tare
