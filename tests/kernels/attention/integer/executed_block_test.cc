// SPDX-License-Identifier: Apache-2.0
// One block by itself: its rows alone are written, from scratch of any content, as the whole call writes them.

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/attention/integer/executed_attention.h"
#include "kernels/attention/integer/executed_layout.h"
#include "quant/base/aligned.h"
#include "tests/support/random_attention.h"

namespace tare::executed_block_test {
namespace {

using Order = AttentionPlan::Order;

TEST(ExecutedBlock, WritesItsRowsAlone) {
  for (const Order order : {Order::kLate, Order::kEarly}) {
    for (const Format logits : {Format::kF32, Format::kInt6}) {
      RandomAttention in({.heads = 2, .queries = 70, .keys = 90});
      const AttentionPlan plan{
          .logits = logits, .order = order, .probs = order == Order::kLate ? Format::kU8 : Format::kInt8, .block = 64};
      AlignedBuffer<std::byte> memory(WorkspaceBytes(plan, in.problem));
      ExecutedAttention(plan, in.problem, memory.span());
      const std::vector<float> whole = in.out;

      const ExecutedLayout layout(plan, in.problem);
      const Workspace workspace(layout, memory.span());
      const PackedHeads packed = workspace.Packed();
      const ExecutedProducts products(layout);
      PackHeads(layout, packed, workspace);
      for (int64_t index = 0; index < static_cast<int64_t>(layout.RowBlocks()); ++index) {
        std::ranges::fill(in.out, 99.0f);
        const ExecutedScratch scratch = workspace.Scratch(0);
        std::fill(reinterpret_cast<std::byte*>(scratch.q_codes), memory.data() + memory.size(), std::byte{0x7f});
        RunBlock(packed, products, scratch, index);
        const RowBlock block = BlockOfRows(in.problem, layout.rows, layout.row_blocks, index);
        for (size_t i = 0; i < whole.size(); ++i) {
          const auto t = static_cast<int64_t>(i / 64), head = static_cast<int64_t>(i / 32 % 2);
          const bool own = head == block.head && t >= block.first && t < block.first + block.count;
          ASSERT_EQ(in.out[i], own ? whole[i] : 99.0f) << index << ' ' << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tare::executed_block_test
