// SPDX-License-Identifier: Apache-2.0
#include "tests/support/normal_floats.h"

#include <gtest/gtest.h>

namespace tare::normal_floats_test {
namespace {

TEST(NormalFloatsTest, AreTheLibrarys) {
  for (const float mean : {0.0f, 0.3f}) {
    std::mt19937 random(1), same(1);
    NormalFloats normal(mean, mean + 1);
    std::normal_distribution<float> expected(mean, mean + 1);
    for (int i = 0; i < 9999; ++i) ASSERT_EQ(normal(random), expected(same)) << i;
    EXPECT_EQ(random, same);
  }
}

}  // namespace
}  // namespace tare::normal_floats_test
