// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/integer/executed_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "quant/base/aligned.h"
#include "quant/base/parallel.h"
#include "tests/support/random_attention.h"

namespace tare::executed_layout_test {
namespace {

using Order = AttentionPlan::Order;

struct Case {
  explicit Case(Order order, Format logits, int64_t queries, int64_t keys)
      : plan{.logits = logits, .order = order, .block = 256}, in({.queries = 1, .keys = 1, .d = 18, .v_width = 70}) {
    in.problem.q.tokens = in.problem.out.tokens = queries;
    in.problem.k.tokens = in.problem.v.tokens = keys;
  }
  AttentionPlan plan;
  RandomAttention in;
};

TEST(ExecutedLayout, SizesAreRoundedUp) {
  const Case c(Order::kEarly, Format::kF32, 70, 300);
  const ExecutedLayout layout(c.plan, c.in.problem);
  EXPECT_EQ(layout.d4, 20);
  EXPECT_EQ(layout.columns, 128);
  EXPECT_EQ(layout.slices, 1);
  EXPECT_EQ(layout.tiles, 5);
  EXPECT_EQ(layout.block_tiles, 4);
  EXPECT_EQ(layout.blocks, 2);
  EXPECT_EQ(layout.rows, 64);
  EXPECT_EQ(layout.row_blocks, 2);
  EXPECT_EQ(layout.RowBlocks(), 4u);
}

// 2 maps of 16 bits early, of f32 where logits are quantized, within 3 MiB: fewer rows first, then the scores twice.
TEST(ExecutedLayout, FewerRowsWhereMoreKeysAreKept) {
  const auto layout = [](Order order, Format logits, int64_t keys) {
    const Case c(order, logits, 1000, keys);
    const ExecutedLayout l(c.plan, c.in.problem);
    return std::array<int64_t, 3>{l.rows, l.kept, l.scored};
  };
  EXPECT_EQ(layout(Order::kLate, Format::kF32, 100000), (std::array<int64_t, 3>{64, 4, 4}));
  EXPECT_EQ(layout(Order::kEarly, Format::kF32, 12288), (std::array<int64_t, 3>{64, 192, 192}));
  EXPECT_EQ(layout(Order::kEarly, Format::kF32, 12352), (std::array<int64_t, 3>{32, 193, 193}));
  EXPECT_EQ(layout(Order::kEarly, Format::kF32, 49152), (std::array<int64_t, 3>{16, 768, 768}));
  EXPECT_EQ(layout(Order::kEarly, Format::kF32, 49216), (std::array<int64_t, 3>{64, 4, 769}));
  EXPECT_EQ(layout(Order::kLate, Format::kInt6, 12288), (std::array<int64_t, 3>{32, 192, 4}));
  EXPECT_EQ(layout(Order::kEarly, Format::kInt6, 49216), (std::array<int64_t, 3>{16, 769, 769}));
}

// A scale per row needs the maxima of all tiles before its first code.
TEST(ExecutedLayout, AScalePerRowKeepsAllKeys) {
  Case c(Order::kLate, Format::kF32, 1000, 12288);
  c.plan.prob_scale = AttentionPlan::ProbScale::kRow;
  const ExecutedLayout some(c.plan, c.in.problem);
  EXPECT_EQ((std::array<int64_t, 3>{some.rows, some.kept, some.scored}), (std::array<int64_t, 3>{64, 192, 192}));
  c.in.problem.k.tokens = c.in.problem.v.tokens = 49216;
  const ExecutedLayout many(c.plan, c.in.problem);
  EXPECT_EQ((std::array<int64_t, 3>{many.rows, many.kept, many.scored}), (std::array<int64_t, 3>{64, 4, 769}));
}

// Where one piece ends the next begins: every piece at its full length.
TEST(ExecutedLayout, PiecesDoNotOverlap) {
  for (const Order order : {Order::kLate, Order::kEarly}) {
    for (const Format logits : {Format::kF32, Format::kInt8}) {
      const Case c(order, logits, 70, 700);
      const ExecutedLayout l(c.plan, c.in.problem);
      Arena arena(0);
      const PackedHeads packed = l.TakePacked(arena);
      const ExecutedScratch s = l.TakeScratch(arena);
      const auto at = [](const auto* piece) { return reinterpret_cast<uintptr_t>(piece); };
      const int64_t k_heads = 2, v_heads = 1, both = 2 * l.rows;
      EXPECT_EQ(packed.k_bias, nullptr);
      EXPECT_GE(at(packed.k_offsets), at(packed.k_codes + k_heads * l.tiles * 64 * l.d4));
      EXPECT_GE(at(packed.v_codes), at(packed.k_scales + k_heads * l.tiles * 64));
      EXPECT_GE(at(packed.v_scales), at(packed.v_codes + v_heads * l.tiles * 64 * l.columns));
      EXPECT_EQ(at(packed.v_absmax), at(packed.v_scales));
      EXPECT_GE(at(packed.v_sums), at(packed.v_scales + v_heads * l.blocks * l.columns));
      EXPECT_GE(at(s.q_codes), at(packed.v_sums + v_heads * (l.tiles + l.blocks) * l.columns));
      EXPECT_GE(at(s.q_scales), at(s.q_codes + both * l.d4));
      EXPECT_GE(at(s.exps), at(s.sums + l.rows * 64));
      EXPECT_EQ(at(s.logits), at(s.exps));
      const int64_t bytes = logits == Format::kF32 ? 2 : 4;  // of a key
      EXPECT_EQ(l.exps_stride * 2, l.rows * 64 * bytes);
      EXPECT_GE(at(s.logit_absmax), at(s.exps) + static_cast<uintptr_t>(2 * l.kept * l.rows * 64 * bytes));
      EXPECT_EQ(at(s.weights), at(s.tile_max));
      EXPECT_GE(at(s.exp_sums), at(s.tile_max + l.scored * both));
      EXPECT_GE(at(s.spare_max), at(s.exp_sums + l.scored * both));
      EXPECT_GE(at(s.zeros), at(s.codes + l.rows * c.plan.block));
      EXPECT_GE(at(s.reference), at(s.out + both * l.slices * l.columns));
      EXPECT_EQ(arena.used(), at(s.mean_factors + l.rows));
    }
  }
}

TEST(ExecutedLayout, ProductsReachFromOneTileToABlock) {
  const Case c(Order::kLate, Format::kF32, 70, 700);
  const ExecutedProducts products(ExecutedLayout(c.plan, c.in.problem));
  for (int tiles = 0; tiles <= 16; ++tiles) EXPECT_EQ(products.values[tiles].has_value(), tiles >= 1 && tiles <= 4);
}

// A result of more than 2 MiB a thread goes past the caches: two heads of 70 columns, 560 bytes a query.
TEST(ExecutedLayout, LargeResultsGoPastTheCaches) {
  const int threads = Threads();
  for (const int some : {1, 3}) {
    SetThreads(some);
    const auto store = [](int64_t queries) {
      const Case c(Order::kLate, Format::kF32, queries, queries);
      return ExecutedLayout(c.plan, c.in.problem).store;
    };
    EXPECT_EQ(store(some * 3744), OutputStore::kCached);  // 2,096,640 bytes a thread
    EXPECT_EQ(store(some * 3745), OutputStore::kPastCaches);
  }
  SetThreads(threads);
}

// K and V of a whole problem, from the workspace back to values: each within half a step of what it was made of.
using ValueScale = AttentionPlan::ValueScale;

struct PackedCase {
  PackedCase(ValueScale scale, const std::vector<float>& means)
      : in({.heads = 2, .kv = 2, .queries = 20, .keys = 150, .d = 6, .v_width = 70, .pad = 1}),
        plan{.v_scale = scale, .block = 64, .q_mean = means.data(), .k_mean = means.data(), .v_mean = means.data()},
        layout(plan, in.problem),
        memory(BytesOf(layout)),
        workspace(layout, memory.span()),
        packed(workspace.Packed()) {
    std::fill_n(memory.data(), memory.size(), std::byte{0x7f});
    PackHeads(layout, packed, workspace);
  }
  RandomAttention in;
  AttentionPlan plan;
  ExecutedLayout layout;
  AlignedBuffer<std::byte> memory;
  Workspace<ExecutedLayout> workspace;
  PackedHeads packed;
};

std::vector<float> Means() {
  std::vector<float> means(2 * 70);
  for (size_t i = 0; i < means.size(); ++i) means[i] = 0.02f * static_cast<float>(i) - 1;
  return means;
}

TEST(PackedHeads, KeysComeBackAndHaveTheirBias) {
  const std::vector<float> means = Means();
  const PackedCase c(ValueScale::kBlock, means);
  for (int head = 0; head < 4; ++head) {
    for (int64_t s = 0; s < 192; ++s) {
      const int8_t* tile = c.packed.k_codes + c.layout.KeyTile(head, s / 64) * 64 * 8;
      const int64_t column = ColumnOfKey(static_cast<int>(s % 64)), key = head * 192 + s / 64 * 64 + column;
      const float scale = c.packed.k_scales[key];
      int sum = 0;
      double bias = 0;
      for (int i = 0; i < 8; ++i) {
        const int code = tile[(i / 4 * 64 + column) * 4 + i % 4];
        sum += code;
        if (i < 6 && s < 150) {
          const float want = c.in.problem.k.Row(s, head)[i] - means[head * 6 + i];
          ASSERT_NEAR(code * scale, want, 0.501f * scale) << head << ' ' << s << ' ' << i;
          bias += double{means[head * 6 + i]} * code * scale;
        } else {
          ASSERT_EQ(code, 0);
        }
      }
      ASSERT_EQ(c.packed.k_offsets[key], -128 * sum);
      // V1: map m of output head h meets q and k head 2h + m, whose mean is the same.
      const float* row = c.packed.k_bias + c.layout.BiasTile(head / 2, head % 2, s / 64) * 64;
      ASSERT_NEAR(row[column], bias, 1e-5) << head << ' ' << s;
    }
  }
}

TEST(PackedHeads, ValuesComeBackWithAScalePerBlockOrOneForAll) {
  const std::vector<float> means = Means();
  for (const ValueScale kind : {ValueScale::kBlock, ValueScale::kSequence, ValueScale::kHead}) {
    const PackedCase c(kind, means);
    for (int head = 0; head < 2; ++head) {
      for (int i = 0; i < 128; ++i) {
        int sum = 0;
        for (int64_t s = 0; s < 192; ++s) {
          const float* scales = c.packed.v_scales + head * 3 * 128;
          const float scale = scales[s / 64 * 128 + i];
          ASSERT_TRUE(kind == ValueScale::kBlock || scale == scales[kind == ValueScale::kHead ? 0 : i]);
          const int8_t* tile = c.packed.v_codes + ((head * 128 + i / 64 * 64) * 3 + s / 64 * 64) * 64;
          const int code = tile[(s % 64 / 4 * 64 + i % 64) * 4 + s % 4];
          if (i < 70 && s < 150) {
            const float want = c.in.problem.v.Row(s, head)[i] - means[head * 70 + i];
            ASSERT_NEAR(code * scale, want, 0.501f * scale) << head << ' ' << s << ' ' << i;
          } else {
            ASSERT_EQ(code, 0);
          }
          // Blocks of one tile: rows of sums are 0, then the tile's, of each.
          const int32_t* sums = c.packed.v_sums + (head * 6 + s / 64 * 2) * 128;
          sum = code + (s % 64 == 0 ? 0 : sum);
          ASSERT_EQ(sums[i], 0);
          ASSERT_TRUE(s % 64 < 63 || sums[128 + i] == sum) << s << ' ' << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tare::executed_layout_test
