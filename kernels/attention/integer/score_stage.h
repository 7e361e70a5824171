// SPDX-License-Identifier: Apache-2.0
// A tile's attention logits, rows x 64 keys, from s32 sums of Q K to 16-bit exponentials. First z, logits per q scale:
//
//   z = float(sum + offset[key]) * key_scale[key]    offset = -128 * sum of the key's codes: Q is fed as code + 128
//   z = fma(key_bias[key], row_inv[row], that)       where a mean was subtracted from Q (packing.h)
//   z = row_cap[row] tanh(z / row_cap[row])          where logits have a soft cap
//
// with row_inv = 1 / q scale, row_cap = cap / (q scale * attention scale); the same roundings on every set with FMA.
//
//   m = max z over the row's visible keys of this tile
//   u = round_half_even(min((m - z) * row_factor, 32767))    row_factor = q scale * attention scale * log2(e) * 2048
//   e = FixedExp2(u), 0 where masked
//
// where u is rounded once (FMA): the same integers on every instruction set that has FMA, AVX2 and later. What has 64
// entries per tile is in the order of the product's columns, exps in its own (row_block.h).
#pragma once

#include <cstdint>

#include "kernels/attention/row_block.h"

namespace tare {

struct LogitSums {
  int rows = 0;                       // a multiple of 4
  const int32_t* sums = nullptr;      // [rows][64]
  const int32_t* offsets = nullptr;   // [64]
  const float* key_scales = nullptr;  // [64]
  const float* key_bias = nullptr;    // [64], or null: Q is not smoothed
  const float* row_inv = nullptr;     // [rows], with key_bias
  const float* row_cap = nullptr;     // [rows], or null: no soft cap
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

// Quantized attention logits, executed: a row's logits become b-bit codes by the row's absmax over all visible keys,
// the exponential a table of code differences. Replaces ScoreStage in three steps, with the same exps, max, exp_sums.
//
//   LogitStage     z as above, kept, 0 where masked;   absmax = max |z| over the row's tiles
//   LogitTables    inv = qmax / absmax;   step = absmax / qmax * row_factor, 1/2048 octaves per code
//                  table[i] = FixedExp2(min(round(i * step), 32767))
//   LookupStage    code = round_half_even(z * inv)
//                  e = table[largest code of the tile - code], 0 where masked;   max = largest code * step
//
// z is in the order of the product's columns, e in that of exponentials (row_block.h).
//
// int6 and int4: 64 entries of 16 bits are two vector registers, one instruction looks 32 keys up (AVX-512). Elsewhere,
// and for int8, the table's formula is computed for each key, which beats loading entries one by one.
inline constexpr int kLogitEntries = 64;  // of a row's table: int6's 2 * 31 + 1 and one that nothing reads

struct LogitTile {
  LogitSums sums;
  float* logits = nullptr;  // [rows][64] out: z
  float* absmax = nullptr;  // [rows], grows
};
void LogitStage(const LogitTile& tile);

struct LogitScales {
  int rows = 0;
  int qmax = 31;
  const float* absmax = nullptr;       // [rows]
  const float* row_factors = nullptr;  // [rows]
  float* inv = nullptr;                // [rows] out
  float* steps = nullptr;              // [rows] out
  uint16_t* table = nullptr;           // [rows][kLogitEntries] out
};
void LogitTables(const LogitScales& scales);

struct LookupTile {
  int rows = 0;
  int qmax = 31;
  const float* logits = nullptr;    // [rows][64]
  const float* inv = nullptr;       // [rows]
  const float* steps = nullptr;     // [rows]
  const uint16_t* table = nullptr;  // [rows][kLogitEntries]
  const int32_t* begin = nullptr;   // [rows], as above
  const int32_t* end = nullptr;     // [rows]
  int16_t* exps = nullptr;          // [rows][64] out; may begin where logits do
  float* max = nullptr;             // [rows] out
  int32_t* exp_sums = nullptr;      // [rows] out
};
void LookupStage(const LookupTile& tile);

}  // namespace tare
