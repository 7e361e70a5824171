// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/folders/grouped_matrix.h"

#include <gtest/gtest.h>

#include <cmath>

#include "quant/format/grid.h"
#include "quant/format/pack.h"

namespace tare::grouped_matrix_test {
namespace {

TEST(GroupedMatrix, ValuesOfCodes) {
  EXPECT_EQ(IntegerValues(8)[3], -5.0f);
  EXPECT_EQ(SignedByteValues()[0x80], -128.0f);
  EXPECT_EQ(SignedByteValues()[0x7f], 127.0f);
}

// Every code is a value of the grid, and rounding leaves it; bit 7 or 3 is the sign.
TEST(GroupedMatrix, FloatsAreTheirGrids) {
  const std::array<float, 256> eight = StoredValues(Format::kFp8E4M3), four = StoredValues(Format::kMxFp4);
  for (size_t code = 0; code < 128; ++code) {
    EXPECT_EQ(std::isnan(eight[code]), code == 127);
    if (code == 127) continue;
    EXPECT_EQ(Nearest(eight[code], kE4M3), eight[code]);
    EXPECT_EQ(eight[code + 128], -eight[code]);
    if (code > 0) {
      EXPECT_GT(eight[code], eight[code - 1]);
    }
  }
  EXPECT_EQ(eight[126], 448.0f);
  EXPECT_EQ(eight[1], 0x1p-9f);
  for (size_t code = 0; code < 8; ++code) {
    EXPECT_EQ(Nearest(four[code], kE2M1), four[code]);
    EXPECT_EQ(four[code + 8], -four[code]);
    if (code > 0) {
      EXPECT_GT(four[code], four[code - 1]);
    }
  }
  EXPECT_TRUE(std::signbit(four[8]));
  EXPECT_TRUE(std::isnan(four[16]));
}

}  // namespace
}  // namespace tare::grouped_matrix_test
