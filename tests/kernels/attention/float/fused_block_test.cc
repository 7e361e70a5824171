// SPDX-License-Identifier: Apache-2.0
// Looking at a block's rows changes nothing; what is changed there is used. Against the double reference:
// fused_attention_test.cc.
#include "kernels/attention/float/fused_block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/attention/float/fused_attention.h"
#include "quant/base/aligned.h"
#include "quant/base/float16.h"
#include "quant/base/message.h"
#include "tests/support/random_attention.h"

namespace tare::fused_block_test {
namespace {

constexpr int64_t kTokens = 150;

// The problem's first head, block after block.
std::vector<float> Attend(RandomAttention& in, FusedValues order, const Looks& looks) {
  const AttentionProblem& p = in.problem;
  const FusedKernel kernel(p, ProductTypes::kF32, kTokens, kTokens, order);
  const OutputHead& head = p.heads[0];
  std::vector<AlignedBuffer<std::byte>> memory(4);
  PackedHead packed;
  for (int i = 0; i < 2; ++i) {
    memory[i].Reset(kernel.tiles * kernel.operands.KeyBytes(p.k.width));
    memory[2 + i].Reset(kernel.tiles * kernel.operands.ValueBytes(p.v.width));
    packed.k[i] = memory[i].data(), packed.v[i] = memory[2 + i].data();
  }
  for (int64_t tile = 0; tile < kernel.tiles; ++tile) {
    for (int map = 0; map < head.Maps(); ++map) {
      TileRows k{}, v{};
      for (int64_t s = tile * kTile; s < std::min(kTokens, (tile + 1) * kTile); ++s)
        k[s % kTile] = p.k.Row(s, head.K(map)), v[s % kTile] = p.v.Row(s, head.v[0]);
      kernel.operands.Keys(k, p.k.width, packed.k[map] + tile * kernel.operands.KeyBytes(p.k.width));
      kernel.operands.Values(v, p.v.width, packed.v[0] + tile * kernel.operands.ValueBytes(p.v.width));
    }
  }
  Arena counted(0);
  kernel.TakeScratch(counted);
  AlignedBuffer<std::byte> bytes(counted.used());
  Arena arena(reinterpret_cast<uintptr_t>(bytes.data()));
  const FusedScratch scratch = kernel.TakeScratch(arena);
  const int64_t blocks = RoundUp(kTokens, kernel.rows) / kernel.rows;
  for (int64_t i = 0; i < blocks; ++i) {
    const RowBlock block = BlockOfRows(p, kernel.rows, blocks, i);
    RunFused({kernel, p, block, packed, scratch, looks});
  }
  return in.out;
}

RandomAttention Inputs(HeadKind family) {
  return RandomAttention({.family = family, .heads = 1, .queries = kTokens, .keys = kTokens});
}

TEST(FusedBlock, LookingChangesNoBit) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kV2}) {
    RandomAttention in = Inputs(family);
    AlignedBuffer<std::byte> workspace(FusedWorkspaceBytes(in.problem));
    FusedAttention(in.problem, workspace.span());
    const std::vector<float> want = in.out;
    EXPECT_EQ(Attend(in, FusedValues::kTiles, {}), want);
    int shown = 0;
    const auto look = [&](const ShownRows& rows) { shown += rows.values != nullptr; };
    EXPECT_EQ(Attend(in, FusedValues::kRows, {look, {}, {}}), want);
    EXPECT_EQ(Attend(in, FusedValues::kRows, {{}, look, {}}), want);
    EXPECT_EQ(Attend(in, FusedValues::kRows, {look, look, look}), want);
    EXPECT_EQ(shown, 3 * (family == HeadKind::kStandard ? 4 : 9));
  }
}

TEST(FusedBlock, WhatIsChangedIsUsed) {
  RandomAttention in = Inputs(HeadKind::kV1);
  const std::vector<float> plain = Attend(in, FusedValues::kTiles, {});
  const auto halve = [](const ShownRows& rows) {  // every block has at least 16 rows, and sees key 0
    for (int r = 0; r < 16; ++r)
      for (int64_t s = 0; s < kTokens; ++s) rows.values[r * rows.stride + s] *= 0.5f;
  };
  EXPECT_NE(Attend(in, FusedValues::kRows, {halve, {}, {}}), plain);
  const std::vector<float> probs = Attend(in, FusedValues::kRows, {{}, halve, {}}),
                           difference = Attend(in, FusedValues::kRows, {{}, {}, halve});
  const int64_t width = in.problem.out.width;
  for (int64_t t = 0; t < kTokens; ++t) {
    const float factor = t % 64 < 16 ? 0.5f : 1.0f;
    for (int64_t i = t * width; i < (t + 1) * width; ++i) {
      EXPECT_EQ(probs[i], factor * plain[i]);
      EXPECT_EQ(difference[i], factor * plain[i]);
    }
  }
}

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
}  // namespace tare::fused_block_test
