// SPDX-License-Identifier: Apache-2.0
// See executed_layout.h.
#include "kernels/attention/integer/executed_layout.h"

#include <algorithm>

#include "kernels/attention/integer/logit_stage.h"

namespace tare {
namespace {

// The early order needs a row's sums before its first code, quantized logits its absmax. What they are made of is kept
// for all keys while that fits, with fewer rows at a time if need be; beyond (early: 49,152 keys) the scores are
// computed twice. Leaves room for the rest in 4 MiB.
constexpr int64_t kMostKept = int64_t{3} << 20;

}  // namespace

Sizes SizesOf(const AttentionPlan& plan, const AttentionProblem& p) {
  Sizes s{};
  s.queries = p.q.tokens;
  s.keys = p.k.tokens;
  s.d4 = static_cast<int>(RoundUp(p.q.width, 4));
  s.columns = static_cast<int>(RoundUp(p.v.width, kTile));
  s.tiles = RoundUp(s.keys, kTile) / kTile;
  s.block_tiles = plan.block / kTile;
  s.blocks = RoundUp(s.tiles, s.block_tiles) / s.block_tiles;
  s.rows = static_cast<int>(std::clamp<int64_t>(RoundUp(s.queries, kRowStep), kRowStep, kLargestRows));
  const bool early = plan.order == AttentionPlan::Order::kEarly, coded = plan.logits != Format::kF32;
  s.scored = early ? s.tiles : s.block_tiles;
  s.kept = early || coded ? s.tiles : s.block_tiles;
  const int64_t key_bytes = 2 * (coded ? sizeof(float) : sizeof(int16_t));  // both maps
  const auto too_many = [&] { return s.kept * kTile * s.rows * key_bytes > kMostKept; };
  while (s.rows > kRowStep && s.kept == s.tiles && too_many()) s.rows = s.rows > 2 * kRowStep ? 2 * kRowStep : kRowStep;
  if (early && !coded && too_many()) {
    s.kept = s.block_tiles;
    s.rows = static_cast<int>(std::min<int64_t>(RoundUp(s.queries, kRowStep), kLargestRows));
  }
  s.p_stride = s.rows * kTile * key_bytes / 4;
  s.row_blocks = RoundUp(s.queries, s.rows) / s.rows;
  return s;
}

Packed CarvePacked(Arena& arena, const Sizes& s, const AttentionPlan& plan, const AttentionProblem& p) {
  Packed x{};
  x.k_codes = arena.Take<int8_t>(p.k.heads * s.tiles * kTile * s.d4);
  x.k_offsets = arena.Take<int32_t>(p.k.heads * s.tiles * kTile);
  x.k_scales = arena.Take<float>(p.k.heads * s.tiles * kTile);
  if (plan.q_mean != nullptr) x.k_bias = arena.Take<float>(std::ssize(p.heads) * 2 * s.tiles * kTile);
  x.v_codes = arena.Take<int8_t>(p.v.heads * s.tiles * kTile * s.columns);
  x.v_scales = arena.Take<float>(p.v.heads * s.blocks * s.columns);
  x.v_sums = arena.Take<int32_t>(p.v.heads * (s.tiles + s.blocks) * s.columns);
  return x;
}

Scratch CarveScratch(Arena& arena, const Sizes& s, const AttentionPlan& plan, const AttentionProblem& p) {
  Scratch x{};
  const int64_t rows = s.rows;
  const int64_t slices = p.out.width / p.v.width;
  x.q = arena.Take<uint8_t>(2 * rows * s.d4);
  x.factors = arena.Take<float>(2 * rows);
  x.q_inv = arena.Take<float>(2 * rows);
  x.lambda = arena.Take<float>(rows);
  x.begin = arena.Take<int32_t>(rows);
  x.end = arena.Take<int32_t>(rows);
  x.sums = arena.Take<int32_t>(rows * kTile);
  x.p = arena.Take<int16_t>(2 * s.kept * s.p_stride);
  x.logit_inv = arena.Take<float>(2 * rows);
  x.logit_table = arena.Take<uint16_t>(2 * rows * kLogitEntries);
  x.max = arena.Take<float>(2 * s.scored * rows);
  x.p_sums = arena.Take<int32_t>(2 * s.scored * rows);
  x.late = arena.Take<float>(s.block_tiles * rows);
  x.early = arena.Take<int16_t>(2 * s.block_tiles * rows);
  x.block_max = arena.Take<float>(rows);
  x.code_sums = arena.Take<int32_t>(rows);
  x.row_scales = arena.Take<float>(rows);
  x.zeros = arena.Take<int32_t>(rows);
  x.v_sums = arena.Take<int32_t>(kTile);
  x.codes = arena.Take<uint8_t>(rows * plan.block);
  x.out = arena.Take<float>(2 * rows * slices * s.columns);
  x.reference = arena.Take<float>(2 * rows);
  x.norm = arena.Take<float>(2 * rows);
  return x;
}

Products ProductsOf(const Sizes& s, const AttentionPlan& plan) {
  Products x{TileProduct({ProductTypes::kU8S8, s.rows, kTile, s.d4, s.d4, kTile, kTile}), {}};
  for (int n = 1; n <= s.block_tiles; ++n)
    x.values[n].emplace(ProductShape{ProductTypes::kU8S8, s.rows, kTile, n * kTile, plan.block, kTile, kTile});
  return x;
}

}  // namespace tare
