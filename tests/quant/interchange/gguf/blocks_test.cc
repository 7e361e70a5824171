// SPDX-License-Identifier: Apache-2.0
// Random blocks of every quantized type have the values that gguf-py and libggml give them, bit for bit
// (tests/data/gguf).
#include "quant/interchange/gguf/blocks.h"

#include <sstream>

#include <gtest/gtest.h>

#include "quant/file/mapped_file.h"
#include "quant/file/sha256.h"
#include "quant/interchange/gguf/container.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::blocks_test {
namespace {

using namespace gguf;

TEST(GgufBlocks, AreBitEqualToTheReferences) {
  const std::filesystem::path folder = std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf";
  const MappedFile file(folder / "blocks.gguf");
  const Content content = Parse(file.bytes(), "blocks.gguf");
  std::istringstream lines(GetFile(folder / "blocks.sha256"));
  size_t types = 0;
  for (std::string hash, name; lines >> hash >> name; ++types) {
    const auto tensor = std::ranges::find(content.tensors, name, &Tensor::name);
    ASSERT_NE(tensor, content.tensors.end()) << name;
    const int64_t blocks = std::ssize(tensor->bytes) / tensor->type->bytes;
    std::vector<float> values(static_cast<size_t>(blocks * tensor->type->values));
    DequantizeBlocks(tensor->type->type, tensor->bytes.data(), blocks, values.data());
    EXPECT_EQ(Sha256Hex(std::as_bytes(std::span(values))), hash) << name;
  }
  EXPECT_EQ(types, 12u);
}

// Every code is one of the format, and code * scale (+ minimum) is the value, bit for bit but for the sign of a zero.
TEST(GgufBlocks, IntegersAreTheValues) {
  const MappedFile file(std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf/blocks.gguf");
  for (const Tensor& tensor : Parse(file.bytes(), "blocks.gguf").tensors) {
    const TypeInfo& type = *tensor.type;
    if (type.IsFloat()) continue;
    const IntegerForm form = IntegersOfType(type.type);
    const FormatInfo& format = Info(form.format);
    BlockIntegers block;
    std::vector<float> values(static_cast<size_t>(type.values));
    for (int64_t b = 0; b < std::ssize(tensor.bytes) / type.bytes; ++b) {
      const std::byte* const bytes = tensor.bytes.data() + b * type.bytes;
      DequantizeBlocks(type.type, bytes, 1, values.data());
      ReadIntegers(type.type, bytes, block);
      for (size_t i = 0; i < values.size(); ++i) {
        const size_t g = i / static_cast<size_t>(form.group);
        ASSERT_GE(block.codes[i], format.min_code) << type.name;
        ASSERT_LE(block.codes[i], format.max_code) << type.name;
        const float product = static_cast<float>(block.codes[i]) * block.scales[g];
        ASSERT_EQ(HasOffset(form.format) ? product + block.minima[g] : product, values[i]) << type.name << " " << i;
      }
    }
  }
}

// By hand: d = 2, q = 3 and 12.
TEST(GgufBlocks, OfQ4_0HoldNeighboursSixteenApart) {
  std::array<uint8_t, 18> block{0x00, 0x40};
  block[2] = 0xc3;
  std::array<float, 32> values{};
  DequantizeBlocks(TensorType::kQ4_0, reinterpret_cast<const std::byte*>(block.data()), 1, values.data());
  EXPECT_EQ(values[0], -10);
  EXPECT_EQ(values[16], 8);
  EXPECT_EQ(values[1], -16);
}

using gguf::HalfAt, gguf::InverseOrZero, gguf::PutHalf;

TEST(Half, TheLowerByteIsFirst) {
  uint8_t bytes[2] = {};
  EXPECT_TRUE(PutHalf(1.5f, bytes));
  EXPECT_EQ(bytes[0], 0x00);
  EXPECT_EQ(bytes[1], 0x3e);
  EXPECT_EQ(HalfAt(bytes), 1.5f);
}

TEST(Half, TheNearestIsWritten) {
  uint8_t bytes[2] = {};
  EXPECT_TRUE(PutHalf(0.1f, bytes));
  EXPECT_EQ(HalfAt(bytes), 0.0999755859375f);
  EXPECT_TRUE(PutHalf(-0x1p-24f, bytes));  // the smallest subnormal value
  EXPECT_EQ(HalfAt(bytes), -0x1p-24f);
}

// 65504 is the largest F16, and 65520 halfway to the next.
TEST(Half, BeyondTheLargestIsTold) {
  uint8_t bytes[2] = {};
  EXPECT_TRUE(PutHalf(65519.0f, bytes));
  EXPECT_EQ(HalfAt(bytes), 65504.0f);
  EXPECT_FALSE(PutHalf(65520.0f, bytes));
  EXPECT_FALSE(PutHalf(-1e30f, bytes));
}

TEST(Half, NoScaleHasTheInverseZero) {
  EXPECT_EQ(InverseOrZero(4.0f), 0.25f);
  EXPECT_EQ(InverseOrZero(0.0f), 0.0f);
  EXPECT_EQ(InverseOrZero(-0.0f), 0.0f);
  EXPECT_EQ(InverseOrZero(1e-39f), 0.0f);
}

}  // namespace
}  // namespace tare::blocks_test
