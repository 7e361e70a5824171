// SPDX-License-Identifier: Apache-2.0
// The stated bounds, of FixedExp2 over every argument, and that vectors give the bits of the scalar.
#include "kernels/attention/exponentials.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/exponentials-inl.h"
#include "tests/support/fixed_exp2.h"

namespace tare::exponentials_test {
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

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

TEST(RowExp2, IsWithinItsBound) {
  for (float x = 0; x >= -126; x -= 0.001f) {
    const double want = std::exp2(double{x});
    ASSERT_NEAR(RowExp2(x), want, 4e-7 * want) << x;
  }
}

TEST(RowExp2, Ends) {
  EXPECT_EQ(RowExp2(0.0f), 1.0f);
  EXPECT_EQ(RowExp2(-1.0f), 0.5f);
  EXPECT_EQ(RowExp2(-126.0f), 0x1p-126f);
  for (const float x : {std::nextafter(-126.0f, -127.0f), -1e30f, -kInfinity, kNan}) EXPECT_EQ(RowExp2(x), 0.0f);
}

TEST(RowExp2, VectorsGiveTheSameBits) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  for (int i = 0; i <= 130000; ++i) {
    const float x = i == 0 ? kNan : i == 1 ? -kInfinity : -0.001f * static_cast<float>(i - 2);
    ASSERT_EQ(hn::GetLane(HWY_NAMESPACE::RowExp2(d, hn::Set(d, x))), RowExp2(x)) << x;
  }
}

}  // namespace
}  // namespace tare::exponentials_test
