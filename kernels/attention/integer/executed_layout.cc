// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/integer/executed_layout.h"

#include <algorithm>
#include <cmath>

#include "kernels/attention/integer/packing.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/round.h"

namespace tare {
namespace {

struct Packer {
  const ExecutedLayout& layout;
  const PackedHeads& packed;
  const Workspace<ExecutedLayout>& memory;
  const AttentionPlan& plan = layout.plan;
  const AttentionProblem& problem = layout.problem;

  void Run() const {
    ParallelFor(static_cast<size_t>(layout.tiles), [&](size_t tile, int thread) {
      Keys(static_cast<int64_t>(tile), memory.Scratch(thread).wide);
      if (plan.q_mean != nullptr) KeyBiases(static_cast<int64_t>(tile));
    });
    if (plan.v_scale != AttentionPlan::ValueScale::kBlock) {
      ForBlocks([&](int64_t index, const HeadsView<const float>& v) { ValueMagnitudes(index, v); });
      ShareMagnitudes();
      ForBlocks([&](int64_t index, const HeadsView<const float>& v) { Values(index, v); });
    } else {
      ForBlocks([&](int64_t index, const HeadsView<const float>& v) {
        ValueMagnitudes(index, v);
        Values(index, v);
      });
    }
  }

  // Calls body(index, v) for the blocks of V, [v heads][blocks], with v their rows in f32.
  template <typename Body>
  void ForBlocks(const Body& body) const {
    ParallelFor(static_cast<size_t>(problem.v.heads * layout.blocks), [&](size_t i, int thread) {
      const auto index = static_cast<int64_t>(i);
      body(index, Widened(problem.v, static_cast<int>(index / layout.blocks), index % layout.blocks * plan.block,
                          plan.block, memory.Scratch(thread).wide));
    });
  }

  static const float* Mean(const float* means, int64_t head, int width) {
    return means == nullptr ? nullptr : means + head * width;
  }

  // Packs a tile of K for all heads, four tokens at a time, in the order of memory.
  void Keys(int64_t tile, float* wide) const {
    const FloatHeads<const float>& k = problem.k;
    for (int64_t token = tile * kTile; token < (tile + 1) * kTile; token += kRowsAtOnce) {
      for (int head = 0; head < k.heads; ++head) {
        const int64_t key = layout.KeyTile(head, tile) * kTile;
        const float* absmax = plan.k_absmax == nullptr ? nullptr : plan.k_absmax + head * k.tokens;
        PackFourKeys(Widened(k, head, token, kRowsAtOnce, wide), head, token, plan.k, Mean(plan.k_mean, head, k.width),
                     packed.k_codes + key * layout.d4, packed.k_offsets + key, packed.k_scales + key, absmax);
      }
    }
  }

  // Finite beside any row's inverse scale (kMeanOnlyScale).
  static void CheckBiases(const float* bias, int q_head) {
    for (int i = 0; i < kTile; ++i) {
      if (!(std::abs(bias[i]) < 0x1p62f))
        Fail("attention plan, q: got a mean of head {} whose product with a key is {}, expected less than 2^62", q_head,
             bias[i]);
    }
  }

  // The biases of one tile's keys, for every head and map.
  void KeyBiases(int64_t tile) const {
    for (int64_t row = 0; row < std::ssize(problem.heads); ++row) {
      const OutputHead& head = problem.heads[static_cast<size_t>(row)];
      for (int map = 0; map < head.Maps(); ++map) {
        const int64_t key = layout.KeyTile(head.K(map), tile) * kTile;
        KeyBias(packed.k_codes + key * layout.d4, problem.k.width, Mean(plan.q_mean, head.Q(map), problem.q.width),
                packed.k_scales + key, packed.k_bias + layout.BiasTile(row, map, tile) * kTile);
        CheckBiases(packed.k_bias + layout.BiasTile(row, map, tile) * kTile, head.Q(map));
      }
    }
  }

  // The largest magnitudes in a block.
  void ValueMagnitudes(int64_t index, const HeadsView<const float>& v) const {
    const int64_t head = index / layout.blocks, first = index % layout.blocks * plan.block;
    ValueAbsMax(v, static_cast<int>(head), first, std::min<int64_t>(plan.block, v.tokens - first),
                Mean(plan.v_mean, head, v.width), packed.v_absmax + index * layout.columns);
  }

  // Gives a column of all blocks, or all columns, the largest of its magnitudes.
  void ShareMagnitudes() const {
    const int64_t columns = layout.columns, all = layout.blocks * columns;
    for (int head = 0; head < problem.v.heads; ++head) {
      float* absmax = packed.v_absmax + head * all;
      if (plan.v_scale == AttentionPlan::ValueScale::kHead)
        std::fill_n(absmax, columns, *std::max_element(absmax, absmax + all));
      for (int64_t i = columns; i < all; ++i) absmax[i % columns] = std::max(absmax[i % columns], absmax[i]);
      for (int64_t i = columns; i < all; ++i) absmax[i] = absmax[i % columns];
    }
  }

  void Values(int64_t index, const HeadsView<const float>& v) const {
    const int64_t head = index / layout.blocks, block = index % layout.blocks;
    const int64_t tiles = layout.tiles, block_tiles = layout.block_tiles, columns = layout.columns;
    const float* absmax = packed.v_absmax + index * columns;
    int32_t* sums = packed.v_sums + (head * (tiles + layout.blocks) + block * (block_tiles + 1)) * columns;
    std::fill_n(sums, columns, 0);
    for (int64_t tile = block * block_tiles; tile < std::min(tiles, (block + 1) * block_tiles);
         ++tile, sums += columns) {
      std::copy_n(sums, columns, sums + columns);
      PackValueTile(v, static_cast<int>(head), tile, plan.v, Mean(plan.v_mean, head, v.width), absmax,
                    packed.v_codes + (head * columns * tiles + tile * kTile) * kTile, tiles * kTile * kTile,
                    sums + columns);
    }
    float* scales = packed.v_scales + index * columns;
    for (int i = 0; i < columns; ++i) scales[i] = ScaleFor(absmax[i], plan.v).scale;
  }
};

}  // namespace

// Early order needs a row's sums before its first code, a scale per row its maximum, quantized logits its absmax:
// sources are kept, in fewer rows if need be; past 49,152 keys (never quantized logits) scores are computed twice.
ExecutedLayout::ExecutedLayout(const AttentionPlan& a_plan, const AttentionProblem& a_problem)
    : plan(a_plan), problem(a_problem) {
  CheckProblem(problem);
  CheckSoftmax("executed attention", problem);
  CheckPlan(plan, problem);
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
  scored = TakesTwoPasses() ? tiles + (problem.sinks.empty() ? 0 : 1) : block_tiles;
  kept = TakesTwoPasses() || CodesLogits() ? tiles : block_tiles;
  const int64_t key_bytes = 2 * (CodesLogits() ? sizeof(float) : sizeof(int16_t));  // both maps
  const auto too_many = [&] { return kept * kTile * rows * key_bytes > kMostKept; };
  while (rows > kRowStep && kept == tiles && too_many()) rows = rows > 2 * kRowStep ? 2 * kRowStep : kRowStep;
  if (TakesTwoPasses() && !CodesLogits() && too_many()) {
    kept = block_tiles;
    rows = RowsFor(problem.q.tokens);
  }
  exps_stride = rows * kTile * key_bytes / 4;
  wide = problem.HasHalves() ? std::max<int64_t>(rows * std::max(problem.q.width, kTile),
                                                 plan.block * std::max(problem.v.width, problem.k.width))
                             : 0;
  row_blocks = CeilDiv(problem.q.tokens, rows);
  const int64_t out_bytes = problem.q.tokens * std::ssize(problem.heads) * problem.out.width * int64_t{sizeof(float)};
  const bool past_caches = problem.out.halves == nullptr && out_bytes / Threads() > kMostCachedOutput;
  store = past_caches ? OutputStore::kPastCaches : OutputStore::kCached;
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

void PackHeads(const ExecutedLayout& layout, const PackedHeads& packed, const Workspace<ExecutedLayout>& memory) {
  Packer{layout, packed, memory}.Run();
}

}  // namespace tare
