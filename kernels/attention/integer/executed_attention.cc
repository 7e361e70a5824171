// SPDX-License-Identifier: Apache-2.0
// See executed_attention.h. First K and V are packed, then every block of query rows of every output head is computed.
#include "kernels/attention/integer/executed_attention.h"

#include "kernels/attention/integer/executed_block.h"
#include "kernels/attention/integer/executed_layout.h"
#include "kernels/attention/integer/packed_heads.h"

namespace tare {
namespace {

ExecutedLayout LayoutOf(const AttentionPlan& plan, const AttentionProblem& problem) {
  CheckProblem(problem);
  CheckPlan(plan, problem);
  return {plan, problem};
}

void Execute(const AttentionPlan& plan, const AttentionProblem& problem, std::span<std::byte> memory,
             const AttentionPartials* partials) {
  const ExecutedLayout layout = LayoutOf(plan, problem);
  const Workspace workspace(layout, memory);
  const PackedHeads packed = workspace.Packed();
  const ExecutedProducts products(layout);
  PackHeads(layout, packed);
  ParallelFor(layout.RowBlocks(), [&](size_t index, int thread) {
    const ProductScope tiles;
    RunBlock({layout, packed, products, partials}, workspace.Scratch(thread), static_cast<int64_t>(index));
  });
}

}  // namespace

size_t WorkspaceBytes(const AttentionPlan& plan, const AttentionProblem& problem) {
  return BytesOf(LayoutOf(plan, problem));
}

void ExecutedAttention(const AttentionPlan& plan, const AttentionProblem& problem, std::span<std::byte> workspace) {
  Execute(plan, problem, workspace, nullptr);
}

void ExecutedPartials(const AttentionPlan& plan, const AttentionProblem& problem, std::span<std::byte> workspace,
                      const AttentionPartials& partials) {
  if (plan.order != AttentionPlan::Order::kLate || plan.v_mean != nullptr)
    Fail("attention partials: got the early order or smoothed values, expected the late order and plain values");
  for (const MapPartials& map : partials) {
    if (map.o.data == nullptr && &map == &partials[1]) continue;
    if (map.o.tokens != problem.q.tokens || map.o.heads != std::ssize(problem.heads) ||
        map.o.width != problem.out.width)
      Fail("attention partials: got o [{}][{}][{}], expected [{}][{}][{}]", map.o.tokens, map.o.heads, map.o.width,
           problem.q.tokens, problem.heads.size(), problem.out.width);
  }
  Execute(plan, problem, workspace, &partials);
}

}  // namespace tare
