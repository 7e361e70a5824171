// SPDX-License-Identifier: Apache-2.0
// The integer kernels' division of work, memory (shared packed K and V; a scratch per thread), products and two steps.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "kernels/attention/integer/executed_attention.h"
#include "kernels/attention/integer/score_stage.h"
#include "kernels/attention/output_stage.h"
#include "kernels/attention/row_block.h"
#include "kernels/product/tile_product.h"

namespace tare {

// Keys whose codes wait for one pass over the output: whole blocks, one at least.
inline constexpr int kGroupKeys = 256;

// Bytes of the result, per thread, up to which it may still be in the second cache when it is read. Measured on one
// thread (2 MiB of L2): a reader waits for 1 MiB that went past the caches, and for 2 MiB no longer.
inline constexpr int64_t kMostCachedOutput = int64_t{2} << 20;

struct PackedHeads {
  int8_t* k_codes;     // [k heads][tiles][d4 / 4][64][4]
  int32_t* k_offsets;  // [k heads][tiles * 64]
  float* k_scales;     // [k heads][tiles * 64]
  float* k_bias;       // [head table rows][2][tiles * 64], of both maps; null where Q is not smoothed
  int8_t* v_codes;     // [v heads][columns / 64][tiles][16][64][4]
  float* v_absmax;     // [v heads][blocks][columns]: of a block's columns, until they are coded
  float* v_scales;     // the same memory: each scale replaces the magnitude it is made of
  int32_t* v_sums;     // [v heads][tiles + blocks][columns]: block b's first at row (first tile of b) + b
};

struct ExecutedScratch;

struct ExecutedLayout {
  // Throws Error for what CheckProblem and CheckPlan refuse.
  ExecutedLayout(const AttentionPlan& plan, const AttentionProblem& problem);

  bool Early() const { return plan.order == AttentionPlan::Order::kEarly; }
  bool ScaledByRow() const { return plan.prob_scale == AttentionPlan::ProbScale::kRow; }
  bool TakesTwoPasses() const { return Early() || ScaledByRow(); }  // the first for all of a row's tiles
  bool SumsExps() const { return Early() || plan.unnormalized; }
  bool CodesLogits() const { return plan.logits != Format::kF32; }
  size_t RowBlocks() const { return problem.heads.size() * static_cast<size_t>(row_blocks); }
  int64_t KeyTile(int64_t k_head, int64_t tile) const { return k_head * tiles + tile; }
  int64_t BiasTile(int64_t row, int map, int64_t tile) const { return (row * 2 + map) * tiles + tile; }

  PackedHeads TakePacked(Arena& arena) const;
  ExecutedScratch TakeScratch(Arena& arena) const;

  const AttentionPlan& plan;
  const AttentionProblem& problem;
  int d4;               // width of q and k, rounded up to 4
  int columns;          // width of a V slice, rounded up to 64
  int slices;           // of V in an output row
  int64_t tiles;        // of 64 keys
  int block_tiles;      // tiles of a block of keys
  int64_t blocks;       // of keys
  int group_blocks;     // blocks of a group
  int64_t code_stride;  // of a row of a group's codes
  int rows;             // of a block of query rows
  int64_t row_blocks;   // of an output head
  int64_t scored;       // tiles whose maxima and sums are kept for each map; in two passes, one more for a sink
  int64_t kept;         // tiles whose exponentials are
  int64_t exps_stride;  // of a tile of them, in 16 bits
  int64_t wide;         // values of Q, K, V or the result that are widened at a time; 0 for f32
  OutputStore store;
};

// What one thread works with. Arrays [2] have an entry per map.
struct ExecutedScratch {
  Arena arena;
  const ExecutedLayout& l;
  int64_t rows = l.rows;
  uint8_t* q_codes = arena.Take<uint8_t>(2 * rows * l.d4);  // [2][rows][d4]
  float* q_scales = arena.Take<float>(rows);                // [rows], of one map
  float* q_inv = arena.Take<float>(2 * rows);               // [2][rows]: 1 / q scale, where Q is smoothed
  float* row_cap = arena.Take<float>(2 * rows);             // [2][rows]: of z, where logits have a soft cap
  float* row_factors = arena.Take<float>(2 * rows);         // [2][rows]: 1/2048 octaves per z of score_stage.h
  float* lambda = arena.Take<float>(rows);                  // [rows]
  int32_t* begin = arena.Take<int32_t>(rows);               // [rows] of the keys of a tile that are visible
  int32_t* end = arena.Take<int32_t>(rows);                 // [rows]
  int32_t* sums = arena.Take<int32_t>(rows * kTile);        // [rows][64] of a product
  // [2][kept], tiles of [rows][64], exps_stride apart; quantized logits lie there until exponentials replace them
  int16_t* exps = arena.Take<int16_t>(2 * l.kept * l.exps_stride);
  float* logits = reinterpret_cast<float*>(exps);
  float* logit_absmax = arena.Take<float>(2 * rows);                       // [2][rows]
  float* logit_inv = arena.Take<float>(2 * rows);                          // [2][rows]: codes per z
  float* logit_steps = arena.Take<float>(2 * rows);                        // [2][rows]: 1/2048 octaves per code
  uint16_t* logit_table = arena.Take<uint16_t>(2 * rows * kLogitEntries);  // [2][rows][kLogitEntries]
  float* tile_max = arena.Take<float>(2 * l.scored * rows);  // [2][scored][rows]: each tile's largest logit
  float* weights = tile_max;                                 // early: what 1 of each tile's exps is worth replaces them
  int32_t* exp_sums = arena.Take<int32_t>(2 * l.scored * rows);  // [2][scored][rows]
  float* spare_max = arena.Take<float>(rows);  // [rows] early: a map's largest logits; then never read
  float* block_max = arena.Take<float>(2 * l.group_blocks * rows);  // [2][group blocks][rows] late: largest logits
  float* code_sums = arena.Take<float>(2 * l.group_blocks * rows);  // [2][group blocks][rows] late
  uint8_t* codes = arena.Take<uint8_t>(2 * rows * l.code_stride);   // [2][rows][code_stride], early of one
  int32_t* zeros =
      arena.Take<int32_t>(l.group_blocks * rows);  // [group blocks][rows] early: the byte that stands for 0
  float* row_scales = arena.Take<float>(l.group_blocks * rows);     // [group blocks][rows] of codes
  float* shrinks = arena.Take<float>(rows);                         // [rows] late: of out so far
  int32_t* v_sums = arena.Take<int32_t>(kTile);                     // [64] of the codes of V that a product goes over
  float* out = arena.Take<float>(2 * rows * l.slices * l.columns);  // [2][slices][columns / 64][rows][64]
  float* reference = arena.Take<float>(2 * rows);    // [2][rows] late: the maximum of out and norm, or the row's
  float* norm = arena.Take<float>(2 * rows);         // [2][rows] late: sum of what the codes are worth
  float* out_factors = arena.Take<float>(2 * rows);  // [2][rows] of out in the result
  float* mean_factors = arena.Take<float>(rows);     // [rows] of V's mean in the result
  float* wide = arena.Take<float>(l.wide);           // rows of what has 16 bits
};

struct ExecutedProducts {
  explicit ExecutedProducts(const ExecutedLayout& layout);

  TileProduct scores;
  std::array<std::optional<TileProduct>, kLargestBlock / kTile + 1> values;  // by tiles of keys
};

// Packs K and V of all heads into codes, on all threads: the first step. Throws Error naming the place of a NaN or Inf.
void PackHeads(const ExecutedLayout& layout, const PackedHeads& packed, const Workspace<ExecutedLayout>& memory);

// The work on block `index` of layout.RowBlocks(), from Q's quantization to finished rows. Late or early order
// (code_stage.h); products are TileProducts, all between is a stage. Throws Error naming the place of NaN or Inf in Q.
void RunBlock(const PackedHeads& packed, const ExecutedProducts& products, const ExecutedScratch& scratch,
              int64_t index);

}  // namespace tare
