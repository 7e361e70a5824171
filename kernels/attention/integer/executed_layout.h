// SPDX-License-Identifier: Apache-2.0
// How the integer kernels cut their work, and where in the caller's memory everything lies: packed K and V of all
// heads, shared; one scratch a thread; the products of one call.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "kernels/attention/integer/executed_attention.h"
#include "kernels/attention/integer/score_stage.h"
#include "kernels/attention/row_block.h"
#include "kernels/attention/workspace.h"
#include "kernels/product/tile_product.h"

namespace tare {

struct Sizes {
  int64_t queries, keys;
  int d4;           // width of q and k, rounded up to 4
  int columns;      // width of a V slice, rounded up to 64
  int64_t tiles;    // of 64 keys
  int block_tiles;  // tiles of a block
  int64_t blocks;
  int rows;  // of a unit
  int64_t row_blocks;
  int64_t scored;    // tiles of maxima and sums that a unit keeps for each map
  int64_t kept;      // tiles of p
  int64_t p_stride;  // of a tile of p
};

// Packed K and V of all heads; see packing.h.
struct Packed {
  int8_t* k_codes;     // [k heads][tiles][d4 / 4][64][4]
  int32_t* k_offsets;  // [k heads][tiles * 64]
  float* k_scales;     // [k heads][tiles * 64]
  float* k_bias;       // [head table rows][2][tiles * 64], of both maps; null where Q is not smoothed
  int8_t* v_codes;     // [v heads][columns / 64][tiles][16][64][4]
  float* v_scales;     // [v heads][blocks][columns]
  int32_t* v_sums;     // [v heads][tiles + blocks][columns]: block b's first at row (first tile of b) + b

  // A tile of k_bias.
  float* KeyBias(const Sizes& s, int64_t row, int map, int64_t tile) const {
    return k_bias + ((row * 2 + map) * s.tiles + tile) * kTile;
  }
};

// What one thread works with; m: maps.
struct Scratch {
  uint8_t* q;             // [2][rows][d4]
  float* factors;         // [2][rows]
  float* q_inv;           // [2][rows]
  float* lambda;          // [rows]
  int32_t* begin;         // [rows]
  int32_t* end;           // [rows]
  int32_t* sums;          // [rows][64]
  int16_t* p;             // [2][kept][p_stride], [rows][64] used; quantized logits lie there as f32 before
  float* logit_inv;       // [2][rows]: the row's absmax, then its inverse step
  uint16_t* logit_table;  // [2][rows][kLogitEntries]
  float* max;             // [2][scored][rows]; early: becomes the weights
  int32_t* p_sums;        // [2][scored][rows]
  float* late;            // [block tiles][rows]
  int16_t* early;         // [2][block tiles][rows]
  float* block_max;       // [rows]
  int32_t* code_sums;     // [rows]
  float* row_scales;      // [rows]
  int32_t* zeros;         // [rows]
  int32_t* v_sums;        // [64]
  uint8_t* codes;         // [rows][block]
  float* out;             // [2][rows][slices * columns]
  float* reference;       // [2][rows]
  float* norm;            // [2][rows]
};

struct Products {
  TileProduct scores;
  std::array<std::optional<TileProduct>, kLargestBlock / kTile + 1> values;  // by tiles of keys
};

Sizes SizesOf(const AttentionPlan& plan, const AttentionProblem& problem);
Packed CarvePacked(Arena& arena, const Sizes& sizes, const AttentionPlan& plan, const AttentionProblem& problem);
Scratch CarveScratch(Arena& arena, const Sizes& sizes, const AttentionPlan& plan, const AttentionProblem& problem);
Products ProductsOf(const Sizes& sizes, const AttentionPlan& plan);

}  // namespace tare
