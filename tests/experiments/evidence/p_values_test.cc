// SPDX-License-Identifier: Apache-2.0
#include "experiments/evidence/p_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

// Quantiles as tables print them: 97.5 % of 1, 2, 7 and 8 degrees of freedom, 99.5 % of 31.
TEST(PValues, StudentsTails) {
  EXPECT_NEAR(StudentTwoSided(12.7062, 1), 0.05, 1e-6);
  EXPECT_NEAR(StudentTwoSided(4.30265, 2), 0.05, 1e-6);
  EXPECT_NEAR(StudentTwoSided(-2.364624, 7), 0.05, 1e-6);
  EXPECT_NEAR(StudentTwoSided(2.306004, 8), 0.05, 1e-6);
  EXPECT_NEAR(StudentTwoSided(2.744042, 31), 0.01, 1e-6);
  EXPECT_EQ(StudentTwoSided(0, 5), 1);
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
