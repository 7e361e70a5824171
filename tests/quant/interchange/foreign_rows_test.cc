// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/foreign_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tare::foreign_rows_test {
namespace {

// Value 10 row + column, five bytes a row and two more.
class Counting : public ForeignMatrix {
 public:
  Counting() : ForeignMatrix(6, 2) {}
  void Row(int64_t row, float* y) const override {
    for (int i = 0; i < 2; ++i) y[i] = static_cast<float>(10 * row + i);
  }
  std::string scheme() const override { return "counting"; }
  std::optional<IntegerForm> integers() const override { return IntegerForm{.format = Format::kInt8, .group = 2}; }
  int64_t bytes() const override { return 32; }
  void Release() const override { ++released; }
  mutable int released = 0;
};

TEST(ForeignRows, AreRowsOfTheWhole) {
  const Counting whole;
  const ForeignRows rows(whole, 2, 3);
  EXPECT_EQ(rows.out(), 3);
  EXPECT_EQ(rows.in(), 2);
  EXPECT_EQ(rows.scheme(), "counting");
  EXPECT_TRUE(rows.HasCodes());
  EXPECT_EQ(rows.integers()->format, Format::kInt8);
  std::vector<float> y(2);
  rows.Row(0, y.data());
  EXPECT_THAT(y, testing::ElementsAre(20, 21));
  rows.Row(2, y.data());
  EXPECT_THAT(y, testing::ElementsAre(40, 41));
  rows.Release();
  EXPECT_EQ(whole.released, 1);
}

TEST(ForeignRows, PartsHaveTheBytesOfTheWhole) {
  const Counting whole;
  EXPECT_EQ(ForeignRows(whole, 0, 1).bytes(), 5);
  EXPECT_EQ(ForeignRows(whole, 1, 2).bytes(), 11);
  EXPECT_EQ(ForeignRows(whole, 3, 3).bytes(), 16);
}

}  // namespace
}  // namespace tare::foreign_rows_test
