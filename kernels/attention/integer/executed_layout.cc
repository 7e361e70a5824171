// SPDX-License-Identifier: Apache-2.0
// See executed_layout.h.
#include "kernels/attention/integer/executed_layout.h"

#include <algorithm>

#include "quant/base/parallel.h"

namespace tare {

// The early order needs a row's sums before its first code, quantized logits its absmax. What they are made of is kept
// for all keys while that fits, with fewer rows at a time if need be; beyond (early: 49,152 keys) the scores are
// computed twice.
ExecutedLayout::ExecutedLayout(const AttentionPlan& a_plan, const AttentionProblem& a_problem)
    : plan(a_plan), problem(a_problem) {
  d4 = static_cast<int>(RoundUp(problem.q.width, 4));
  columns = static_cast<int>(RoundUp(problem.v.width, kTile));
  slices = problem.out.width / problem.v.width;
  tiles = CeilDiv(problem.k.tokens, kTile);
  block_tiles = plan.block / kTile;
  blocks = CeilDiv(tiles, block_tiles);
  group_blocks = std::max(1, kGroupKeys / plan.block);
  // Rows of codes must not fall onto the same cache sets: never a multiple of 1024 bytes apart.
  code_stride = group_blocks * plan.block;
  if (code_stride % 1024 == 0) code_stride += kTile;
  rows = RowsFor(problem.q.tokens);
  scored = Early() ? tiles + (problem.sinks.empty() ? 0 : 1) : block_tiles;
  kept = Early() || CodesLogits() ? tiles : block_tiles;
  const int64_t key_bytes = 2 * (CodesLogits() ? sizeof(float) : sizeof(int16_t));  // both maps
  const auto too_many = [&] { return kept * kTile * rows * key_bytes > kMostKept; };
  while (rows > kRowStep && kept == tiles && too_many()) rows = rows > 2 * kRowStep ? 2 * kRowStep : kRowStep;
  if (Early() && !CodesLogits() && too_many()) {
    kept = block_tiles;
    rows = RowsFor(problem.q.tokens);
  }
  exps_stride = rows * kTile * key_bytes / 4;
  row_blocks = CeilDiv(problem.q.tokens, rows);
  const int64_t out_bytes = problem.q.tokens * std::ssize(problem.heads) * problem.out.width * int64_t{sizeof(float)};
  store = out_bytes / Threads() > kMostCachedOutput ? OutputStore::kPastCaches : OutputStore::kCached;
}

PackedHeads ExecutedLayout::TakePacked(Arena& arena) const {
  PackedHeads packed{};
  const int64_t keys = problem.k.heads * tiles * kTile;
  packed.k_codes = arena.Take<int8_t>(keys * d4);
  packed.k_offsets = arena.Take<int32_t>(keys);
  packed.k_scales = arena.Take<float>(keys);
  if (plan.q_mean != nullptr) packed.k_bias = arena.Take<float>(std::ssize(problem.heads) * 2 * tiles * kTile);
  packed.v_codes = arena.Take<int8_t>(problem.v.heads * tiles * kTile * columns);
  packed.v_absmax = packed.v_scales = arena.Take<float>(problem.v.heads * blocks * columns);
  packed.v_sums = arena.Take<int32_t>(problem.v.heads * (tiles + blocks) * columns);
  return packed;
}

ExecutedScratch ExecutedLayout::TakeScratch(Arena& arena) const {
  const ExecutedScratch scratch{arena, *this};
  arena = scratch.arena;
  return scratch;
}

ExecutedProducts::ExecutedProducts(const ExecutedLayout& l)
    : scores({ProductTypes::kU8S8, l.rows, kTile, l.d4, l.d4, kTile, kTile}) {
  for (int n = 1; n <= l.block_tiles; ++n)
    values[n].emplace(ProductShape{ProductTypes::kU8S8, l.rows, kTile, n * kTile, l.code_stride, kTile, kTile});
}

}  // namespace tare
