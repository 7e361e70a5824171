// SPDX-License-Identifier: Apache-2.0
// K and V of a whole problem, from the workspace back to values: each within half a step of what it was made of.
#include "kernels/attention/integer/packed_heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/attention/tile_order.h"
#include "quant/base/aligned.h"
#include "tests/support/random_attention.h"

namespace tare::packed_heads_test {
namespace {

using ValueScale = AttentionPlan::ValueScale;

struct Case {
  Case(ValueScale scale, const std::vector<float>& means)
      : in({.heads = 2, .kv = 2, .queries = 20, .keys = 150, .d = 6, .v_width = 70, .pad = 1}),
        plan{.v_scale = scale, .block = 64, .q_mean = means.data(), .k_mean = means.data(), .v_mean = means.data()},
        layout(plan, in.problem),
        memory(BytesOf(layout)),
        workspace(layout, memory.span()),
        packed(workspace.Packed()) {
    std::fill_n(memory.data(), memory.size(), std::byte{0x7f});
    PackHeads(layout, packed);
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
  const Case c(ValueScale::kBlock, means);
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
  for (const ValueScale kind : {ValueScale::kBlock, ValueScale::kSequence}) {
    const Case c(kind, means);
    for (int head = 0; head < 2; ++head) {
      for (int i = 0; i < 128; ++i) {
        int sum = 0;
        for (int64_t s = 0; s < 192; ++s) {
          const float* scales = c.packed.v_scales + head * 3 * 128;
          const float scale = scales[s / 64 * 128 + i];
          ASSERT_TRUE(kind == ValueScale::kBlock || scale == scales[i]);
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
}  // namespace tare::packed_heads_test
