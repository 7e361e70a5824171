// SPDX-License-Identifier: Apache-2.0
// See executed_attention.h. First K and V are packed, then every (output head, block of query rows) is one unit of
// work.
#include "kernels/attention/integer/executed_attention.h"

#include "kernels/attention/integer/executed_layout.h"
#include "kernels/attention/integer/executed_unit.h"
#include "kernels/attention/integer/packed_heads.h"
#include "kernels/attention/integer/row_codes.h"
#include "kernels/attention/partials.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"

namespace tare {

void CheckPlan(const AttentionPlan& plan, const AttentionProblem& problem) {
  const auto check_signed = [](const char* name, Format format) {
    if (Info(format).min_code >= 0)
      Fail("attention plan, {}: got {}, expected int8, int6 or int4", name, Info(format).name);
  };
  check_signed("q", plan.q);
  check_signed("k", plan.k);
  check_signed("v", plan.v);
  if (plan.logits != Format::kF32) check_signed("attn_logits", plan.logits);
  if (plan.order == AttentionPlan::Order::kEarly) {
    if (plan.p == Format::kF32) Fail("attention plan, difference: got f32, expected int8, int6, int4, u8, u6 or u4");
  } else if (plan.p != Format::kU8 && plan.p != Format::kU6 && plan.p != Format::kU4) {
    Fail("attention plan, probs: got {}, expected u8, u6 or u4", Info(plan.p).name);
  }
  if (plan.block < kTile || plan.block > kLargestBlock || plan.block % kTile != 0)
    Fail("attention plan: got key blocks of {}, expected a multiple of {} up to {}", plan.block, kTile, kLargestBlock);
  for (size_t row = 0; row < problem.heads.size(); ++row) {
    if (plan.order == AttentionPlan::Order::kEarly && !problem.heads[row].Differential())
      Fail("attention plan, head table row {}: got one map and the early order, expected two maps; try the late order",
           row);
  }
  CheckWidths(problem);
  if (!(problem.scale > 0)) Fail("attention scale: got {}, expected more than 0", problem.scale);
}

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
