// SPDX-License-Identifier: Apache-2.0
// The error bounds that fixed_exp.h states, over every argument.
#include "kernels/attention/fixed_exp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tare::fixed_exp_test {
namespace {

TEST(FixedExp, CubicIsWithinItsBoundAndNotFarInside) {
  double worst = 0;
  for (int u = 0; u < 2048; ++u) {
    const double want = 32768 * std::exp2(-u / 2048.0);
    worst = std::max(worst, std::abs(FixedExp2(u) - want) / want);
  }
  EXPECT_LT(worst, 2.3e-4);
  EXPECT_GT(worst, 2.0e-4);
}

TEST(FixedExp, ShiftTruncates) {
  for (int u = 0; u <= kExpLargest; ++u) {
    const double want = 32768 * std::exp2(-u / 2048.0);
    ASSERT_LE(FixedExp2(u), want * (1 + 2.3e-4)) << u;
    ASSERT_GT(FixedExp2(u), want * (1 - 2.3e-4) - 1) << u;
  }
}

TEST(FixedExp, Ends) {
  EXPECT_EQ(FixedExp2(0), kExpLargest);
  EXPECT_EQ(FixedExp2(2048), kExpLargest / 2);
  EXPECT_LE(FixedExp2(kExpLargest), 1);
}

// More of u is never a larger result by more than the cubic's last bits.
TEST(FixedExp, Falls) {
  for (int u = 1; u <= kExpLargest; ++u) ASSERT_LE(FixedExp2(u), FixedExp2(u - 1) + 1) << u;
}

}  // namespace
}  // namespace tare::fixed_exp_test
