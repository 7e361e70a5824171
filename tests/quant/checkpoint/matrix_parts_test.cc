// SPDX-License-Identifier: Apache-2.0
#include "quant/checkpoint/matrix_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <tuple>
#include <vector>

#include "quant/base/message.h"
#include "tests/support/call.h"

namespace tare::matrix_parts_test {
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

// Two of three rows in, two columns out: value 100 stack + 10 in + out.
TEST(TransposedMatrix, RowsAreColumns) {
  std::vector<float> values;
  for (int stack = 0; stack < 2; ++stack)
    for (int in = 0; in < 3; ++in)
      for (int out = 0; out < 2; ++out) values.push_back(static_cast<float>(100 * stack + 10 * in + out));
  const TensorView tensor{"t", DType::kF32, {2, 3, 2}, std::as_bytes(std::span(values))};
  int released = 0;
  const TransposedMatrix first(tensor, 0, [&] { ++released; }), second(tensor, 1, [] {});
  EXPECT_EQ(first.out(), 2);
  EXPECT_EQ(first.in(), 3);
  EXPECT_EQ(first.scheme(), "F32");
  EXPECT_FALSE(first.HasCodes());
  EXPECT_EQ(first.bytes(), 24);
  std::vector<float> row(3);
  first.Row(1, row.data());
  EXPECT_THAT(row, testing::ElementsAre(1, 11, 21));
  second.Row(0, row.data());
  EXPECT_THAT(row, testing::ElementsAre(100, 110, 120));
  std::vector<float> both(6);
  second.Rows(0, 2, both.data());
  EXPECT_THAT(both, testing::ElementsAre(100, 110, 120, 101, 111, 121));
  ASSERT_TRUE(second.columns());
  EXPECT_EQ(second.columns()->type, ForeignMatrix::Columns::Type::kF32);
  EXPECT_EQ(second.columns()->values, tensor.bytes.data() + 24);
  first.Release();
  EXPECT_EQ(released, 1);
  values[8] = std::nanf("");
  EXPECT_THAT(Call([&] { second.Row(0, row.data()); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("tensor 't', index 8: NaN or infinity")));
  EXPECT_THAT(Call([&] { second.Rows(0, 2, both.data()); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("tensor 't', index 8: NaN or infinity")));
}

// Far into a matrix of each type, and not in its neighbour.
TEST(TransposedMatrix, ColumnsAreFinite) {
  for (const auto& [type, bytes, infinity] :
       {std::tuple{DType::kF32, 4, 0x7f800000u}, {DType::kBF16, 2, 0xff80u}, {DType::kF16, 2, 0x7c01u}}) {
    std::vector<std::byte> values(static_cast<size_t>(2 * 70 * 90 * bytes));
    std::memcpy(values.data() + (70 * 90 + 5000) * bytes, &infinity, static_cast<size_t>(bytes));
    const TensorView tensor{"t", type, {2, 70, 90}, values};
    const TransposedMatrix first(tensor, 0, [] {}), second(tensor, 1, [] {});
    EXPECT_TRUE(first.columns());
    EXPECT_THAT(Call([&] { second.columns(); }),
                testing::ThrowsMessage<Error>(testing::HasSubstr("tensor 't', index 11300: NaN or infinity")));
  }
}

TEST(TransposedMatrix, OtherTypesAreRefused) {
  const TensorView tensor{"t", DType::kU8, {1, 1, 1}, {}};
  EXPECT_THAT(Call([&] { TransposedMatrix(tensor, 0, [] {}); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("tensor 't': got dtype U8, expected F32, BF16 or F16")));
}

}  // namespace
}  // namespace tare::matrix_parts_test
