// SPDX-License-Identifier: Apache-2.0
// Values and what libggml rounds them to (tests/data/gguf/make_super.py): ours read back by blocks.h, which agrees with
// libggml bit for bit, and their squared error beside that of libggml's bytes.
#include "quant/interchange/gguf/blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "quant/base/message.h"
#include "quant/file/mapped_file.h"
#include "quant/interchange/gguf/container.h"

namespace tare::super_blocks_test {
namespace {

using namespace gguf;

constexpr TensorType kTypes[]{TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kQ6_K};
constexpr int64_t kValues = 256;

const TypeInfo& InfoOf(TensorType type) { return *FindType(static_cast<uint32_t>(type)); }

std::vector<float> RoundedTo(TensorType type, std::span<const float> x) {
  const int64_t blocks = std::ssize(x) / kValues;
  std::vector<std::byte> bytes(static_cast<size_t>(blocks * InfoOf(type).bytes));
  EXPECT_TRUE(QuantizeBlocks(type, x.data(), blocks, bytes.data()));
  std::vector<float> y(x.size());
  DequantizeBlocks(type, bytes.data(), blocks, y.data());
  return y;
}

double SquaredError(std::span<const float> x, std::span<const float> y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
  return sum;
}

std::vector<float> Ramp(float first, float step) {
  std::vector<float> x(kValues);
  for (size_t i = 0; i < x.size(); ++i) x[i] = first + step * static_cast<float>(i);
  return x;
}

// Each kind of values by itself: normal, of heavy tails, of one sign, with a group apart, of a trained model.
TEST(GgufSuperBlocks, ErrorIsAtMostLibggmls) {
  const MappedFile file(TARE_SOURCE_DIR "/tests/data/gguf/super.gguf");
  const Content content = Parse(file.bytes(), "super.gguf");
  int compared = 0;
  for (const Tensor& values : content.tensors) {
    if (values.type->type != TensorType::kF32) continue;
    std::vector<float> x(values.bytes.size() / sizeof(float)), theirs(x.size());
    std::memcpy(x.data(), values.bytes.data(), values.bytes.size());
    for (const Tensor& rounded : content.tensors) {
      if (rounded.name != Formatted("{}.{}", values.name, rounded.type->name)) continue;
      DequantizeBlocks(rounded.type->type, rounded.bytes.data(), std::ssize(x) / kValues, theirs.data());
      EXPECT_LE(SquaredError(x, RoundedTo(rounded.type->type, x)), SquaredError(x, theirs)) << rounded.name;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 15);
}

// Whole numbers as many as there are codes, in an order that no other place of a code gives.
TEST(GgufSuperBlocks, EveryCodeComesBackFromItsPlace) {
  for (const TensorType type : kTypes) {
    const int codes = type == TensorType::kQ4_K ? 16 : type == TensorType::kQ5_K ? 32 : 64;
    std::vector<float> x(kValues);
    for (int i = 0; i < kValues; ++i) x[i] = static_cast<float>((i * 11 + i / 16 * 5) % codes - codes / 2);
    const std::vector<float> y = RoundedTo(type, x);
    for (int i = 0; i < kValues; ++i) EXPECT_NEAR(y[i], x[i], 0.5f) << InfoOf(type).name << " " << i;
  }
}

// Half a step of the widest group's, and as much again for scales and minima of 6 bits.
TEST(GgufSuperBlocks, NoValueIsFartherThanAStep) {
  for (const float size : {1e-3f, 1.0f, 1e3f}) {
    const std::vector<float> x = Ramp(-128 * size, size);
    for (const TensorType type : kTypes) {
      const std::vector<float> y = RoundedTo(type, x);
      const float step = type == TensorType::kQ6_K ? 128 * size / 31 : 128 * size / 63 + 31 * size / 15;
      for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], x[i], step) << InfoOf(type).name << " " << i;
    }
  }
}

TEST(GgufSuperBlocks, ZerosAndTinyValuesAreZeros) {
  for (const float value : {0.0f, -0.0f, std::numeric_limits<float>::denorm_min(), 1e-12f}) {
    for (const TensorType type : kTypes) {
      for (const float y : RoundedTo(type, std::vector<float>(kValues, value))) EXPECT_EQ(y, 0) << InfoOf(type).name;
    }
  }
}

// The minimum alone says all: but no minimum is above 0.
TEST(GgufSuperBlocks, EqualValuesBelowZeroCostNothing) {
  const std::vector<float> x(kValues, -0.75f);
  for (const TensorType type : {TensorType::kQ4_K, TensorType::kQ5_K}) {
    for (const float y : RoundedTo(type, x)) EXPECT_NEAR(y, -0.75f, 0.75f * 0x1p-11f) << InfoOf(type).name;
  }
}

TEST(GgufSuperBlocks, WhatIsBeyondF16IsSaid) {
  std::array<std::byte, 256> bytes;
  for (const float size : {1e9f, 1e30f, 3e38f}) {
    for (const float sign : {-1.0f, 1.0f}) {
      std::vector<float> x = Ramp(0, 1);
      x[77] = sign * size;
      for (const TensorType type : kTypes) EXPECT_FALSE(QuantizeBlocks(type, x.data(), 1, bytes.data())) << size;
    }
  }
}

}  // namespace
}  // namespace tare::super_blocks_test
