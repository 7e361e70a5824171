// SPDX-License-Identifier: Apache-2.0
// Attention logits of a tile, rows x 64 keys, from the s32 sums of the product to 16-bit exponentials.
//
//   z   of tile_logits.h;  m = max z over the row's visible keys of this tile
//   u = round_half_even(min((m - z) * row_factor, 32767))     row_factor = q scale * attention scale * log2(e) * 2048
//   p = FixedExp2(u), 0 where masked;  sum = exact sum of p
//
// u is rounded once (FMA): the same integers on every instruction set that has FMA, AVX2 and later.
#pragma once

#include <cstdint>

#include "kernels/attention/integer/tile_logits.h"

namespace tare {

struct ScoreTile {
  LogitSums logits;
  const float* row_factors = nullptr;  // [rows]
  int16_t* p = nullptr;                // [rows][64] out
  float* max = nullptr;    // [rows] out: m * row_factor, in units of 1/2048 octave; -inf where nothing is visible
  int32_t* sum = nullptr;  // [rows] out
};

void ScoreStage(const ScoreTile& tile);

}  // namespace tare
