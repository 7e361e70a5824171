// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/float/float_operands.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "quant/base/aligned.h"
#include "quant/base/error.h"
#include "quant/base/float16.h"

namespace tare::float_operands_test {
namespace {

constexpr int kCounts[] = {1, 3, 6, 63, 64}, kWidths[] = {1, 2, 5, 64, 130};

// What bytes of an operand hold at an index of f32 or bf16.
float At(const FloatOperands& operands, const std::byte* bytes, int64_t i) {
  if (operands.Converts()) {
    uint16_t bits;
    std::memcpy(&bits, bytes + 2 * i, 2);
    return FloatFromBf16(bits);
  }
  float value;
  std::memcpy(&value, bytes + 4 * i, 4);
  return value;
}

// Values that bf16 holds, each row apart from the next by two.
std::vector<float> Rows(int count, int width) {
  std::vector<float> x(static_cast<size_t>(count * (width + 2)));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 251) - 125;
  return x;
}

TEST(FloatOperands, RowsKeysAndValuesLieAsTheProductsReadThem) {
  for (const ProductTypes types : {ProductTypes::kF32, ProductTypes::kBf16}) {
    const FloatOperands operands(types);
    const int group = operands.Converts() ? 2 : 1;
    for (const int width : kWidths) {
      const int depth = operands.Depth(width);
      EXPECT_EQ(depth, (width + group - 1) / group * group);
      AlignedBuffer<std::byte> row(operands.RowBytes(width)), keys(operands.KeyBytes(width)),
          values(operands.ValueBytes(width));
      for (const int count : kCounts) {
        const std::vector<float> x = Rows(count, width);
        const auto value = [&](int key, int i) { return key < count && i < width ? x[key * (width + 2) + i] : 0.0f; };
        operands.Row(x.data(), 0.5f, width, row.data());
        for (int i = 0; i < depth; ++i) ASSERT_EQ(At(operands, row.data(), i), value(0, i) / 2);
        TileRows rows{};
        for (int key = 0; key < count; ++key) rows[key] = x.data() + key * (width + 2);
        operands.Keys(rows, width, keys.data());
        operands.Values(rows, width, values.data());
        for (int key = 0; key < 64; ++key) {
          for (int i = 0; i < depth; ++i)
            ASSERT_EQ(At(operands, keys.data(), (i / group * 64 + key) * group + i % group), value(key, i));
          for (int i = 0; i < width; ++i)
            ASSERT_EQ(At(operands, values.data(), (key / group * width + i) * group + key % group), value(key, i))
                << width << ' ' << count << ' ' << key << ' ' << i;
        }
      }
    }
  }
}

TEST(FloatOperands, IntegersAreRefused) { EXPECT_THROW(FloatOperands{ProductTypes::kU8S8}, Error); }

}  // namespace
}  // namespace tare::float_operands_test
