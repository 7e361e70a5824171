// SPDX-License-Identifier: Apache-2.0
#include "quant/format/nearest_integer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tare::nearest_integer_test {
namespace {

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

}  // namespace
}  // namespace tare::nearest_integer_test
