// SPDX-License-Identifier: Apache-2.0
// Values of many kinds become the bytes that libggml and gguf-py round them to (tests/data/gguf/make_rounded.py).
#include "quant/interchange/gguf/blocks.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/float16.h"
#include "quant/file/mapped_file.h"
#include "quant/format/hadamard.h"
#include "quant/format/pack.h"
#include "quant/interchange/gguf/container.h"
#include "tests/support/random_quantized.h"

namespace tare::quantize_blocks_test {
namespace {

using namespace gguf;

class GgufQuantizeBlocks : public testing::Test {
 protected:
  GgufQuantizeBlocks() {
    const Tensor& tensor = content_.tensors.at(0);
    values_.resize(tensor.bytes.size() / sizeof(float));
    std::memcpy(values_.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  MappedFile file_{TARE_SOURCE_DIR "/tests/data/gguf/rounded.gguf"};
  Content content_ = Parse(file_.bytes(), "rounded.gguf");
  std::vector<float> values_;
};

TEST_F(GgufQuantizeBlocks, AreByteEqualToTheReferences) {
  std::vector<std::string> types{"F32", "Q4_K", "Q5_K", "Q6_K"};  // the last three: super_blocks_test.cc
  for (const Tensor& tensor : std::span(content_.tensors).subspan(1)) {
    types.emplace_back(tensor.name);
    const TypeInfo& type = *tensor.type;
    std::vector<std::byte> bytes(tensor.bytes.size());
    ASSERT_TRUE(QuantizeBlocks(type.type, values_.data(), std::ssize(values_) / type.values, bytes.data()));
    for (size_t i = 0; i < bytes.size(); ++i)
      ASSERT_EQ(bytes[i], tensor.bytes[i]) << tensor.name << ", block " << i / static_cast<size_t>(type.bytes);
  }
  EXPECT_THAT(TypesWritten(), testing::UnorderedElementsAreArray(types));
}

TEST_F(GgufQuantizeBlocks, OfF32AreTheValues) {
  std::vector<float> same(values_.size());
  ASSERT_TRUE(QuantizeBlocks(TensorType::kF32, values_.data(), std::ssize(values_),
                             std::as_writable_bytes(std::span(same)).data()));
  EXPECT_EQ(same, values_);
}

// F16 ends at 65504; BF16 and the scales of MXFP4 reach as far as f32.
TEST_F(GgufQuantizeBlocks, WhatIsBeyondTheTypeIsSaid) {
  std::vector<float> large(32, 1e7f);
  std::array<std::byte, 128> bytes;
  for (const TensorType type : {TensorType::kF16, TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ5_0}) {
    const int64_t blocks = 32 / FindType(static_cast<uint32_t>(type))->values;
    EXPECT_FALSE(QuantizeBlocks(type, large.data(), blocks, bytes.data()));
  }
  EXPECT_FALSE(QuantizeBlocks(TensorType::kQ4_1, large.data(), 1, bytes.data()));
  EXPECT_TRUE(QuantizeBlocks(TensorType::kBF16, large.data(), 32, bytes.data()));
  EXPECT_TRUE(QuantizeBlocks(TensorType::kMXFP4, large.data(), 1, bytes.data()));
}

// Which of several zeros, and which of two values of one magnitude, comes first decides the signs of scales and minima.
TEST_F(GgufQuantizeBlocks, TheFirstOfEqualMagnitudesAndOfZerosCounts) {
  std::array<uint8_t, 34> bytes;
  const auto round = [&](TensorType type, std::vector<float> x) {
    EXPECT_TRUE(QuantizeBlocks(type, x.data(), 1, std::as_writable_bytes(std::span(bytes)).data()));
  };
  std::vector<float> x(32, 0.5f);
  x[9] = -2, x[25] = 2;
  round(TensorType::kQ4_0, x);
  EXPECT_EQ(bytes[1], 0x34) << "d = -2 / -8";
  std::swap(x[9], x[25]);
  round(TensorType::kQ4_0, x);
  EXPECT_EQ(bytes[1], 0xb4);
  x.assign(32, 1.0f);
  x[1] = 0.0f, x[8] = -0.0f;  // the second is in the lane of the first value
  round(TensorType::kQ4_1, x);
  EXPECT_EQ(bytes[3], 0x00) << "m";
  std::swap(x[1], x[8]);
  round(TensorType::kQ4_1, x);
  EXPECT_EQ(bytes[3], 0x80);
  x.assign(32, -0.0f);
  round(TensorType::kQ4_0, x);
  EXPECT_EQ(bytes[1], 0x80) << "as of zeros without a sign";
}

// 1 / d is infinite below 2^-128: the block is zeros, as its scale is in f16.
TEST_F(GgufQuantizeBlocks, ScalesBelowF32sNormalNumbersAreZeros) {
  std::vector<float> tiny(32, std::numeric_limits<float>::denorm_min());
  tiny[3] = 0;
  for (const char* name : {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "MXFP4"}) {
    const TypeInfo& type = *FindType(name);
    std::vector<std::byte> bytes(static_cast<size_t>(type.bytes));
    EXPECT_TRUE(QuantizeBlocks(type.type, tiny.data(), 1, bytes.data()));
    std::vector<float> back(32);
    DequantizeBlocks(type.type, bytes.data(), 1, back.data());
    for (const float value : back) EXPECT_EQ(value, 0) << name;
  }
}

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
}  // namespace tare::quantize_blocks_test
