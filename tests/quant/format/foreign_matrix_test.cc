// SPDX-License-Identifier: Apache-2.0
#include "quant/format/foreign_matrix.h"

#include <gtest/gtest.h>

namespace tare::foreign_matrix_test {
namespace {

// 3 x 64 at 4 bits with a scale of 16 bits per 32 values are 4.5 bits per weight.
TEST(ForeignMatrix, BitsPerWeightCountAllThatIsStored) {
  const SchemeTotals totals{.matrices = 1, .values = 3 * 64, .bytes = 3 * 64 / 2 + 3 * 2 * 2};
  EXPECT_EQ(totals.BitsPerWeight(), 4.5);
}

TEST(IntegerForm, SignedCodesTakeTheNarrowestFormat) {
  EXPECT_EQ(SignedFormat(-2, 1), *ParseMatrixFormat("int2+full"));
  EXPECT_EQ(SignedFormat(-3, 3), Format::kInt3);
  EXPECT_EQ(SignedFormat(-7, 7), Format::kInt4);
  EXPECT_EQ(SignedFormat(-8, 7), *ParseMatrixFormat("int4+full"));
  EXPECT_EQ(SignedFormat(-7, 8), Format::kInt6);
  EXPECT_EQ(SignedFormat(-32, 31), *ParseMatrixFormat("int6+full"));
  EXPECT_EQ(SignedFormat(-127, 113), Format::kInt8);
  EXPECT_EQ(SignedFormat(-128, 127), *ParseMatrixFormat("int8+full"));
  EXPECT_EQ(SignedFormat(0, 128), std::nullopt);
}

TEST(IntegerForm, CodesFromZeroTakeTheNarrowestFormat) {
  EXPECT_EQ(RangedFormat(3, CodeRange::kZero), *ParseMatrixFormat("int2+zero"));
  EXPECT_EQ(RangedFormat(4, CodeRange::kMin), *ParseMatrixFormat("int3+min"));
  EXPECT_EQ(RangedFormat(15, CodeRange::kZero), *ParseMatrixFormat("int4+zero"));
  EXPECT_EQ(RangedFormat(16, CodeRange::kZero), *ParseMatrixFormat("int6+zero"));
  EXPECT_EQ(RangedFormat(64, CodeRange::kMin), *ParseMatrixFormat("int8+min"));
  EXPECT_EQ(RangedFormat(256, CodeRange::kMin), std::nullopt);
}

}  // namespace
}  // namespace tare::foreign_matrix_test
