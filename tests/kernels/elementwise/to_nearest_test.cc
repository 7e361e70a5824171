// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/to_nearest.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tare::to_nearest_test {
namespace {

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
}  // namespace tare::to_nearest_test
