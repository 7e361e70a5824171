// SPDX-License-Identifier: Apache-2.0
// Attention logits of a tile, rows x 64 keys, from the s32 sums of the product to 16-bit exponentials.
//
//   z      = float(sum + offset[key]) * key_scale[key]            offset = -128 * sum of the key's codes: Q is fed as
//   code + 128 m      = max z over the row's visible keys of this tile u      = round_half_even(min((m - z) *
//   row_factor, 32767))    row_factor = q scale * attention scale * log2(e) * 2048 p      = FixedExp2(u), 0 where
//   masked;  sum = exact sum of p
//
// u is rounded once (FMA), z by a product alone: the same integers on every instruction set that has FMA, AVX2 and
// later.
#pragma once

#include <cstdint>

#include "kernels/attention/row_block.h"

namespace tare {

inline constexpr int kLargestBlock = 1024;  // keys that share a scale of P

struct ScoreTile {
  int rows = 0;
  const int32_t* sums = nullptr;       // [rows][64]
  const int32_t* offsets = nullptr;    // [64]
  const float* key_scales = nullptr;   // [64]
  const float* row_factors = nullptr;  // [rows]
  const int32_t* begin = nullptr;  // [rows] first visible key of the tile; null: all 64 keys of every row are visible
  const int32_t* end = nullptr;    // [rows] one behind the last
  int16_t* p = nullptr;            // [rows][64] out
  float* max = nullptr;    // [rows] out: m * row_factor, in units of 1/2048 octave; -inf where nothing is visible
  int32_t* sum = nullptr;  // [rows] out
};

void ScoreStage(const ScoreTile& tile);

}  // namespace tare
