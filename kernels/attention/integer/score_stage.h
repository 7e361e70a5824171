// SPDX-License-Identifier: Apache-2.0
// Attention logits of a tile, rows x 64 keys, from the s32 sums of the product of Q and K to 16-bit exponentials. First
// z, logits per q scale of the row (score_stage-inl.h):
//
//   z = float(sum + offset[key]) * key_scale[key]    offset = -128 * sum of the key's codes: Q is fed as code + 128
//   z = fma(key_bias[key], row_inv[row], that)       where a mean was subtracted from Q (key_bias.h)
//
// with row_inv = 1 / q scale; rounded by the product and the FMA alone, the same on every instruction set that has FMA.
//
//   m = max z over the row's visible keys of this tile
//   u = round_half_even(min((m - z) * row_factor, 32767))    row_factor = q scale * attention scale * log2(e) * 2048
//   e = FixedExp2(u), 0 where masked
//
// where u is rounded once (FMA): the same integers on every instruction set that has FMA, AVX2 and later. What has 64
// entries per tile is in the order of the product's columns, exps in its own (tile_order.h).
#pragma once

#include <cstdint>

#include "kernels/attention/tile_order.h"

namespace tare {

struct LogitSums {
  int rows = 0;                       // a multiple of 4
  const int32_t* sums = nullptr;      // [rows][64]
  const int32_t* offsets = nullptr;   // [64]
  const float* key_scales = nullptr;  // [64]
  const float* key_bias = nullptr;    // [64], or null: Q is not smoothed
  const float* row_inv = nullptr;     // [rows], with key_bias
  const int32_t* begin = nullptr;  // [rows] first visible key of the tile; null: all 64 keys of every row are visible
  const int32_t* end = nullptr;    // [rows] one past the last
};

struct ScoreTile {
  LogitSums logits;
  const float* row_factors = nullptr;  // [rows]
  int16_t* exps = nullptr;             // [rows][64] out
  float* max = nullptr;                // [rows] out: m * row_factor, 1/2048 octaves; -inf where nothing is visible
  int32_t* exp_sums = nullptr;         // [rows] out, exact; null: not wanted
};
void ScoreStage(const ScoreTile& tile);

}  // namespace tare
