// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/linear/weight_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "quant/base/float16.h"
#include "quant/checkpoint/matrix_parts.h"
#include "tests/support/random_quantized.h"

namespace tare::weight_matrix_test {
namespace {

// As gpt-oss stores its experts: in place where products take it so, which f32 does everywhere.
TEST(WeightMatrixTest, ColumnsAreTakenAsTheyAreStored) {
  constexpr int64_t kIn = 48, kOut = 40;
  std::vector<std::byte> bytes(2 * kIn * kOut * sizeof(float) + 1);
  const auto columns = [&](DType type, const Projector& projector, size_t shift = 0) {
    const size_t size = 2 * kIn * kOut * Bits(type) / 8;
    const TensorView tensor{"t", type, {2, kIn, kOut}, std::span(bytes).subspan(shift, size)};
    const TransposedMatrix second(tensor, 1, [] {});
    const std::optional<DenseMatrix> stored = StoredColumns(WeightMatrix(&second), projector);
    if (stored) {
      EXPECT_EQ(stored->data, bytes.data() + shift + size / 2);
      EXPECT_EQ(stored->order, WeightOrder::kColumns);
    }
    return stored.has_value();
  };
  const Projector f32(Math::kF32);
  EXPECT_TRUE(columns(DType::kF32, f32));
  EXPECT_FALSE(columns(DType::kF32, f32, 1));
  EXPECT_EQ(columns(DType::kBF16, f32), f32.IsNative(WeightType::kBf16, kOut, WeightOrder::kColumns));
  EXPECT_FALSE(StoredColumns(DenseMatrix{.data = bytes.data(), .out = kOut, .in = kIn}, f32));
  if (!HasProducts(Math::kBf16)) return;
  const Projector bf16(Math::kBf16);
  EXPECT_EQ(columns(DType::kBF16, bf16), bf16.IsNative(WeightType::kBf16, kOut, WeightOrder::kColumns));
  EXPECT_FALSE(columns(DType::kF16, bf16));
}

// Rows are the same whether they are read one by one, together, or made into a matrix: of codes, and of each type.
TEST(WeightMatrixTest, RowsAreTheValues) {
  const QuantizedMatrixBuffer codes = RandomQuantized(Format::kInt4, 5, 64, 32, 1);
  AlignedBuffer<char> f32, bf16;
  const WeightMatrix of_codes(&codes.view());
  EXPECT_TRUE(of_codes.HasIntegers());
  EXPECT_FALSE(of_codes.IsReady(Math::kF32));
  const WeightMatrix made = InFloat(of_codes, Math::kF32, f32, "w"), half = InFloat(made, Math::kBf16, bf16, "w");
  EXPECT_FALSE(made.HasIntegers());
  EXPECT_TRUE(made.IsReady(Math::kF32) && half.IsReady(Math::kBf16));
  EXPECT_FALSE(made.IsReady(Math::kBf16));
  for (const WeightMatrix& matrix : {of_codes, made, half}) {
    std::vector<float> row(64), rows(3 * 64), expected(64);
    RowsAsFloat(matrix, 2, 3, rows.data(), "w");
    for (int64_t r = 2; r < 5; ++r) {
      RowAsFloat(matrix, r, row.data());
      EXPECT_TRUE(std::ranges::equal(row, std::span(rows).subspan(static_cast<size_t>(r - 2) * 64, 64)));
      DequantizeRow(codes.view(), r, expected.data());
      for (size_t i = 0; i < 64; ++i) {
        const float value =
            matrix.values.type == WeightType::kBf16 ? FloatFromBf16(Bf16FromFloat(expected[i])) : expected[i];
        EXPECT_EQ(row[i], value);
      }
    }
  }
}

}  // namespace
}  // namespace tare::weight_matrix_test
