// SPDX-License-Identifier: Apache-2.0
#include "quant/file/row_range.h"

#include <gtest/gtest.h>

namespace tare {
namespace {

// Rows of two equal values, their number.
struct Numbered : ForeignMatrix {
  Numbered() : ForeignMatrix(7, 2) {}
  void Row(int64_t row, float* y) const override { y[0] = y[1] = static_cast<float>(row); }
  std::string scheme() const override { return "TOOL int4"; }
  int64_t bytes() const override { return 24; }
  void Release() const override { ++released; }
  mutable int released = 0;
};

TEST(RowRangeTest, PartsAreTheRowsAndBytesOfTheWhole) {
  const Numbered whole;
  const RowRange first(whole, 0, 3), second(whole, 3, 4);
  EXPECT_EQ(first.out(), 3);
  EXPECT_EQ(second.in(), 2);
  float y[2];
  for (int64_t row = 0; row < 4; ++row) {
    second.Row(row, y);
    EXPECT_EQ(y[1], static_cast<float>(3 + row));
  }
  EXPECT_EQ(first.bytes(), 10);
  EXPECT_EQ(second.bytes(), 14);
  EXPECT_EQ(second.scheme(), "TOOL int4");
  EXPECT_TRUE(second.HasCodes());
  second.Release();
  EXPECT_EQ(whole.released, 1);
}

}  // namespace
}  // namespace tare
