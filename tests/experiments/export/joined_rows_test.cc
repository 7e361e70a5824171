// SPDX-License-Identifier: Apache-2.0
#include "experiments/export/joined_rows.h"

#include <gtest/gtest.h>

#include "tests/support/random_quantized.h"

namespace tare::joined_rows_test {
namespace {

TEST(JoinedRows, TensorsStandBelowEachOther) {
  const float a[]{1, 2, 3, 4}, b[]{5, 6};
  const TensorView parts[]{{"a", DType::kF32, {2, 2}, std::as_bytes(std::span(a))},
                           {"b", DType::kF32, {1, 2}, std::as_bytes(std::span(b))}};
  AlignedBuffer<std::byte> memory;
  const TensorView whole = JoinedTensor("ab", parts, memory);
  EXPECT_EQ(whole.name, "ab");
  EXPECT_EQ(whole.shape, (std::vector<int64_t>{3, 2}));
  std::vector<float> values(6);
  std::memcpy(values.data(), whole.bytes.data(), whole.bytes.size());
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(JoinedRows, RowsOfCodesAreThoseOfTheParts) {
  for (const char* name : {"int4", "int4+zero", "int8+min", "mxfp4", "nvfp4"}) {
    const Format format = *ParseMatrixFormat(name);
    const int64_t group = Info(format).block > 0 ? Info(format).block : 16;
    const QuantizedMatrixBuffer a = RoundedNormal(format, 3, 32, group, 1), b = RoundedNormal(format, 5, 32, group, 2);
    const QuantizedMatrix* const parts[]{&a.view(), &b.view()};
    const std::optional<JoinedMatrix> joined = JoinedMatrix::Of(parts);
    ASSERT_TRUE(joined) << name;
    EXPECT_EQ(joined->view().out, 8);
    std::vector<float> row(32), expected(32);
    for (int64_t r = 0; r < 8; ++r) {
      DequantizeRow(joined->view(), r, row.data());
      DequantizeRow(r < 3 ? a.view() : b.view(), r < 3 ? r : r - 3, expected.data());
      EXPECT_EQ(row, expected) << name << " " << r;
    }
  }
}

TEST(JoinedRows, OthersDoNotJoin) {
  const QuantizedMatrixBuffer a = RandomQuantized(Format::kInt4, 2, 32, 16, 1);
  for (const QuantizedMatrixBuffer& other :
       {RandomQuantized(Format::kInt8, 2, 32, 16, 2), RandomQuantized(Format::kInt4, 2, 32, 8, 2),
        RandomQuantized(Format::kInt4, 2, 16, 16, 2)}) {
    const QuantizedMatrix* const parts[]{&a.view(), &other.view()};
    EXPECT_FALSE(JoinedMatrix::Of(parts));
  }
}

}  // namespace
}  // namespace tare::joined_rows_test
