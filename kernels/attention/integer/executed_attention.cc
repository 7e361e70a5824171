// SPDX-License-Identifier: Apache-2.0
// See executed_attention.h. First K and V are packed, then every (output head, block of query rows) is one unit of
// work.
#include "kernels/attention/integer/executed_attention.h"

#include "kernels/attention/integer/executed_block.h"
#include "kernels/attention/integer/executed_layout.h"
#include "kernels/attention/integer/packed_heads.h"
#include "kernels/attention/integer/row_codes.h"
#include "kernels/attention/partials.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"

namespace tare {

size_t WorkspaceBytes(const AttentionPlan& plan, const AttentionProblem& problem) {
  CheckProblem(problem);
  CheckPlan(plan, problem);
  const Sizes sizes = SizesOf(plan, problem);
  Arena arena(0);
  CarvePacked(arena, sizes, plan, problem);
  for (int t = 0; t < Threads(); ++t) CarveScratch(arena, sizes, plan, problem);
  return arena.used();
}

namespace {

void Execute(const AttentionPlan& plan, const AttentionProblem& problem, std::span<std::byte> workspace,
             const AttentionPartials* partials) {
  const size_t bytes = WorkspaceBytes(plan, problem);
  const uintptr_t base = reinterpret_cast<uintptr_t>(workspace.data());
  if (base % 64 != 0) Fail("attention workspace: got a pointer off the 64-byte boundary");
  if (workspace.size() < bytes) Fail("attention workspace: got {} bytes, expected {}", workspace.size(), bytes);
  const Sizes sizes = SizesOf(plan, problem);
  Arena shared(base), one(0);
  const Packed packed = CarvePacked(shared, sizes, plan, problem);
  CarveScratch(one, sizes, plan, problem);
  const Products products = ProductsOf(sizes, plan);
  PackHeads(plan, problem, sizes, packed);
  ParallelFor(problem.heads.size() * static_cast<size_t>(sizes.row_blocks), [&](size_t unit, int thread) {
    const ProductScope tiles;
    Arena own(base + shared.used() + static_cast<uintptr_t>(thread) * one.used());
    const Scratch scratch = CarveScratch(own, sizes, plan, problem);
    RunUnit({plan, problem, sizes, packed, products, partials}, scratch, static_cast<int64_t>(unit));
  });
}

}  // namespace

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
