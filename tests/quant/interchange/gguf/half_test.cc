// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/half.h"

#include <gtest/gtest.h>

namespace tare::half_test {
namespace {

using gguf::HalfAt, gguf::InverseOrZero, gguf::PutHalf;

TEST(Half, TheLowerByteIsFirst) {
  uint8_t bytes[2] = {};
  EXPECT_TRUE(PutHalf(1.5f, bytes));
  EXPECT_EQ(bytes[0], 0x00);
  EXPECT_EQ(bytes[1], 0x3e);
  EXPECT_EQ(HalfAt(bytes), 1.5f);
}

TEST(Half, TheNearestIsWritten) {
  uint8_t bytes[2] = {};
  EXPECT_TRUE(PutHalf(0.1f, bytes));
  EXPECT_EQ(HalfAt(bytes), 0.0999755859375f);
  EXPECT_TRUE(PutHalf(-0x1p-24f, bytes));  // the smallest subnormal value
  EXPECT_EQ(HalfAt(bytes), -0x1p-24f);
}

// 65504 is the largest F16, and 65520 halfway to the next.
TEST(Half, BeyondTheLargestIsTold) {
  uint8_t bytes[2] = {};
  EXPECT_TRUE(PutHalf(65519.0f, bytes));
  EXPECT_EQ(HalfAt(bytes), 65504.0f);
  EXPECT_FALSE(PutHalf(65520.0f, bytes));
  EXPECT_FALSE(PutHalf(-1e30f, bytes));
}

TEST(Half, NoScaleHasTheInverseZero) {
  EXPECT_EQ(InverseOrZero(4.0f), 0.25f);
  EXPECT_EQ(InverseOrZero(0.0f), 0.0f);
  EXPECT_EQ(InverseOrZero(-0.0f), 0.0f);
  EXPECT_EQ(InverseOrZero(1e-39f), 0.0f);
}

}  // namespace
}  // namespace tare::half_test
