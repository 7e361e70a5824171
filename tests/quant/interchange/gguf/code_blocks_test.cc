// SPDX-License-Identifier: Apache-2.0
// Codes of every format that a type holds come back from blocks.h as they were, and scales as the nearest F16.
#include "quant/interchange/gguf/code_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "quant/base/float16.h"
#include "quant/format/hadamard.h"
#include "quant/format/pack.h"
#include "quant/interchange/gguf/blocks.h"
#include "tests/support/random_quantized.h"

namespace tare::code_blocks_test {
namespace {

using namespace gguf;

constexpr int64_t kOut = 3, kIn = 128;

const TypeInfo& InfoOf(TensorType type) { return *FindType(static_cast<uint32_t>(type)); }
float AsF16(float value) { return FloatFromF16(F16FromFloat(value)); }

struct Held {
  TensorType type;
  Format base;
  CodeRange range;
};
constexpr Held kHeld[] = {
    {TensorType::kQ4_0, Format::kInt4, CodeRange::kOwn},  {TensorType::kQ4_0, Format::kInt4, CodeRange::kFull},
    {TensorType::kQ8_0, Format::kInt4, CodeRange::kFull}, {TensorType::kQ8_0, Format::kInt6, CodeRange::kOwn},
    {TensorType::kQ8_0, Format::kInt8, CodeRange::kOwn},  {TensorType::kQ8_0, Format::kInt8, CodeRange::kFull},
    {TensorType::kQ4_1, Format::kInt4, CodeRange::kZero}, {TensorType::kQ4_1, Format::kInt4, CodeRange::kMin}};

TEST(GgufCodeBlocks, CodesComeBackAndScalesAreTheNearest) {
  for (const auto& [type, base, range] : kHeld) {
    for (const int64_t group : {32, 64, 128}) {
      const QuantizedMatrixBuffer buffer = RandomQuantized(WithRange(base, range), kOut, kIn, group, 5);
      const QuantizedMatrix& m = buffer.view();
      ASSERT_TRUE(HoldsCodes(type, m));
      std::vector<std::byte> bytes(static_cast<size_t>(kIn / 32 * InfoOf(type).bytes));
      std::vector<float> codes(kIn);
      for (int64_t row = 0; row < kOut; ++row) {
        const RoundedScales scales = PutCodes(type, m, row, bytes.data());
        EXPECT_TRUE(scales.fit);
        EXPECT_EQ(scales.groups, kIn / group);
        Unpack<float>(m.format, {m.codes + static_cast<size_t>(row) * m.RowBytes(), m.RowBytes()}, codes);
        for (int64_t b = 0; b < kIn / 32; ++b) {
          BlockIntegers block;
          ReadIntegers(type, bytes.data() + b * InfoOf(type).bytes, block);
          for (int64_t i = 0; i < 32; ++i) ASSERT_EQ(static_cast<float>(block.codes[i]), codes[b * 32 + i]);
          const int64_t g = b * 32 / group;
          EXPECT_EQ(block.scales[0], AsF16(m.ScaleOf(row, g)));
          if (type != TensorType::kQ4_1) continue;
          EXPECT_EQ(block.minima[0],
                    AsF16(m.minima != nullptr ? m.MinimumOf(row, g) : -m.ZeroOf(row, g) * m.ScaleOf(row, g)));
        }
      }
    }
  }
}

TEST(GgufCodeBlocks, OtherFormatsAndGroupsAreNotHeld) {
  const auto holds = [](TensorType type, Format format, int64_t group, const Hadamard* rotation = nullptr) {
    return HoldsCodes(type, {.format = format, .out = 1, .in = 128, .group = group, .rotation = rotation});
  };
  EXPECT_TRUE(holds(TensorType::kQ4_0, Format::kInt4, 32));
  EXPECT_FALSE(holds(TensorType::kQ4_0, Format::kInt4, 16));
  EXPECT_FALSE(holds(TensorType::kQ4_0, Format::kInt4, 32, &PlanRotation(128)));
  EXPECT_FALSE(holds(TensorType::kQ4_0, Format::kInt6, 32));
  EXPECT_FALSE(holds(TensorType::kQ4_0, WithRange(Format::kInt4, CodeRange::kMin), 32));
  EXPECT_FALSE(holds(TensorType::kQ8_0, WithRange(Format::kInt8, CodeRange::kZero), 32));
  EXPECT_FALSE(holds(TensorType::kQ4_1, Format::kInt4, 32));
  EXPECT_FALSE(holds(TensorType::kQ4_K, Format::kInt4, 32));
  EXPECT_FALSE(holds(TensorType::kQ8_0, Format::kMxFp4, 32));
}

// A group counts once, whatever its blocks; what F16 has is not counted.
TEST(GgufCodeBlocks, ScalesThatAreNoF16AreCountedAndThoseBeyondItSaid) {
  QuantizedMatrixBuffer buffer = RandomQuantized(Format::kInt4, 1, kIn, 64, 5);
  std::vector<std::byte> bytes(static_cast<size_t>(kIn / 32 * InfoOf(TensorType::kQ4_0).bytes));
  const auto put = [&](float first, float second) {
    buffer.Scales(0)[0] = first, buffer.Scales(0)[1] = second;
    return PutCodes(TensorType::kQ4_0, buffer.view(), 0, bytes.data());
  };
  EXPECT_EQ(put(0.5f, 0).rounded, 0);
  EXPECT_EQ(put(0.1f, 0.25f).rounded, 1);
  EXPECT_TRUE(put(0.1f, 65504.0f).fit);
  EXPECT_FALSE(put(0.1f, 65520.0f).fit);
  EXPECT_FALSE(put(1e-9f, 0.1f).fit) << "a scale that becomes 0";
}

}  // namespace
}  // namespace tare::code_blocks_test
