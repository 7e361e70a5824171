// SPDX-License-Identifier: Apache-2.0
// Codes, scales and minima against the one rounding rule.
#include "kernels/cache/page_scales.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "quant/format/quantize.h"
#include "tests/support/random_quantized.h"

namespace tare {
namespace {

constexpr int kCount = 4, kValues = 37;

float FloatAt(const std::vector<std::byte>& memory, int64_t byte) {
  float value;
  std::memcpy(&value, memory.data() + byte, 4);
  return value;
}

TEST(PageScales, CodesScalesAndMinimaAreThoseOfTheRule) {
  std::vector<std::vector<float>> rows;
  for (const float shift : {0.0f, 3.0f, -40.0f}) {
    rows.push_back(RandomNormal(kValues, 2));
    for (float& x : rows.back()) x = 0.3f * x + shift;
  }
  rows.emplace_back(kValues, 1e-35f);  // below the smallest range
  rows.emplace_back(kValues, 2.5f);
  for (const FormatInfo& info : kRangedInfos) {
    for (const Format format : {info.format, WithoutRange(info.format)}) {
      const PageScales scales(format, kCount);
      ASSERT_EQ(scales.Bytes(), kCount * (HasOffset(format) ? 8 : 4));
      for (const std::vector<float>& row : rows) {
        std::vector<std::byte> memory(static_cast<size_t>(scales.Bytes()));
        std::vector<float> codes(kValues);
        scales.Round(row.data(), kValues, memory.data(), 2, codes.data());
        const Ends ends = EndsOf(row, format);
        const GroupScale group = GroupScaleFor(ends, format, ends.high);
        EXPECT_EQ(FloatAt(memory, 4 * 2), group.scale.scale) << Info(format).name;
        if (HasOffset(format)) {
          EXPECT_EQ(FloatAt(memory, scales.Minima() + 4 * 2), group.origin - group.zero * group.scale.scale);
        }
        std::vector<float> values = codes;
        scales.Dequantize(memory.data(), 2, kValues, values.data());
        for (int i = 0; i < kValues; ++i) {
          EXPECT_EQ(codes[i], RoundedIn(row[i], group, format)) << Info(format).name << i;
          EXPECT_EQ(values[i], ValueOf(codes[i], group)) << Info(format).name << i;
        }
      }
    }
  }
}

// A scale of each: what a token's row has whose channels share scales.
TEST(PageScales, EachValueByItsOwn) {
  constexpr Format kFormat = WithRange(Format::kInt3, CodeRange::kZero);
  const PageScales scales(kFormat, kCount);
  std::vector<std::byte> memory(static_cast<size_t>(scales.Bytes())), moved = memory;
  const std::vector<float> data = RandomNormal(kCount * kValues, 4);
  std::vector<float> row(kCount), codes(kValues);
  for (int i = 0; i < kCount; ++i) {
    scales.Round(data.data() + i * kValues, kValues, memory.data(), i, codes.data());
    row[i] = codes[5];
    scales.Copy(moved.data(), kCount - 1 - i, memory.data(), i);
  }
  std::vector<float> together = row;
  scales.DequantizeEach(memory.data(), kCount, together.data());
  for (int i = 0; i < kCount; ++i) {
    float alone = row[i], elsewhere = row[i];
    scales.Dequantize(memory.data(), i, 1, &alone);
    scales.Dequantize(moved.data(), kCount - 1 - i, 1, &elsewhere);
    EXPECT_EQ(together[i], alone);
    EXPECT_EQ(elsewhere, alone);
  }
}

TEST(PageScales, NumbersHaveNone) {
  EXPECT_EQ(PageScales(Format::kF32, 64).Bytes(), 0);
  EXPECT_EQ(PageScales(Format::kBf16, 64).Bytes(), 0);
}

}  // namespace
}  // namespace tare
