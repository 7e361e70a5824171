// SPDX-License-Identifier: Apache-2.0
// See executed_attention.h. First K and V are packed, then every block of query rows of every output head is computed.
#include "kernels/attention/integer/executed_attention.h"

#include "kernels/attention/integer/executed_layout.h"

namespace tare {
namespace {

ExecutedLayout LayoutOf(const AttentionPlan& plan, const AttentionProblem& problem) {
  CheckProblem(problem);
  CheckPlan(plan, problem);
  return {plan, problem};
}

}  // namespace

size_t WorkspaceBytes(const AttentionPlan& plan, const AttentionProblem& problem) {
  return BytesOf(LayoutOf(plan, problem));
}

void ExecutedAttention(const AttentionPlan& plan, const AttentionProblem& problem, std::span<std::byte> workspace) {
  const ExecutedLayout layout = LayoutOf(plan, problem);
  const Workspace memory(layout, workspace);
  const PackedHeads packed = memory.Packed();
  CheckMemory(problem);
  const ExecutedProducts products(layout);
  PackHeads(layout, packed, memory);
  ParallelFor(layout.RowBlocks(), [&](size_t index, int thread) {
    const ProductScope tiles;
    RunBlock(packed, products, memory.Scratch(thread), static_cast<int64_t>(index));
  });
}

}  // namespace tare
