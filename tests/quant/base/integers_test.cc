// SPDX-License-Identifier: Apache-2.0
#include "quant/base/integers.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tare::integers_test {
namespace {

TEST(Integers, DivisionRoundsUp) {
  EXPECT_EQ(CeilDiv(0, 4), 0);
  EXPECT_EQ(CeilDiv(1, 4), 1);
  EXPECT_EQ(CeilDiv(4, 4), 1);
  EXPECT_EQ(CeilDiv(5, 4), 2);
  EXPECT_EQ(RoundUp(65, 64), 128);
  EXPECT_EQ(RoundUp(64, 64), 64);
}

// Ties among them, of both signs, up to the largest that it takes.
TEST(NearestInteger, IsNearbyint) {
  for (float x = 0; x < 300; x += 0.0625f) {
    EXPECT_EQ(NearestInteger(x), std::nearbyint(x)) << x;
    EXPECT_EQ(NearestInteger(-x), std::nearbyint(-x)) << x;
  }
  for (const float x : {0x1p22f, 0x1p22f - 0.5f, 0x1p22f - 1.5f, 0x1p21f + 0.75f, 1e-30f, 0.49999997f, 0.5f, 1.5f}) {
    EXPECT_EQ(NearestInteger(x), std::nearbyint(x)) << x;
    EXPECT_EQ(NearestInteger(-x), std::nearbyint(-x)) << x;
  }
  EXPECT_TRUE(std::isnan(NearestInteger(NAN)));
}

TEST(ToNearest, TheLowBitsAreTheRoundedValue) {
  for (int i = -40000; i <= 40000; ++i) {
    const float x = static_cast<float>(i) / 8;  // ties among them
    volatile float sum = x + kToNearest;
    EXPECT_EQ(static_cast<int32_t>(std::bit_cast<uint32_t>(float{sum}) - kToNearestBits), std::nearbyint(x)) << x;
  }
}

TEST(ToNearest, ReachesToTwoToThe22) {
  for (const float x : {-4194304.0f, -4194303.5f, 4194302.5f, 4194303.0f}) {
    volatile float sum = x + kToNearest;
    EXPECT_EQ(static_cast<int32_t>(std::bit_cast<uint32_t>(float{sum}) - kToNearestBits), std::nearbyint(x)) << x;
  }
}

}  // namespace
}  // namespace tare::integers_test
