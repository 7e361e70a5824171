// SPDX-License-Identifier: Apache-2.0
// Quantized attention logits, executed: a row's logits become b-bit codes with the row's absmax over all its visible
// keys, and the exponential is a table of what the codes can differ by. Takes score_stage.h's place in three steps, and
// gives the same p, max and sum.
//
//   Logits      z of tile_logits.h, kept;  absmax = max |z| over the row's tiles
//   LogitTables inv = qmax / absmax;  step = absmax / qmax * row_factor, octaves / 2048 a code;  table[i] =
//   FixedExp2(min(round(i step), 32767)) Lookups     code = round_half_even(z * inv);  p = table[largest code of the
//   tile - code];  max = largest code * step
//
// int6 and int4: 64 entries of 16 bits are two vector registers, one instruction looks 32 keys up (AVX-512). Elsewhere,
// and for int8, the table's formula is computed for each key, which beats loading entries one by one.
#pragma once

#include <cstdint>

#include "kernels/attention/integer/score_stage.h"

namespace tare {

inline constexpr int kLogitEntries = 64;  // of a row's table: int6's 2 * 31 + 1 and one that nothing reads

struct LogitTile {
  LogitSums logits;
  float* z = nullptr;       // [rows][64] out
  float* absmax = nullptr;  // [rows], grows
};
void Logits(const LogitTile& tile);

struct LogitScales {
  float* inv = nullptr;       // [rows] in: absmax, out: inv
  float* step = nullptr;      // [rows] in: row_factor, out: step
  uint16_t* table = nullptr;  // [rows][kLogitEntries] out
};
void LogitTables(int rows, int qmax, const LogitScales& scales);

struct LookupTile {
  int rows = 0;
  int qmax = 31;
  const float* z = nullptr;         // [rows][64]
  const float* inv = nullptr;       // [rows]
  const float* step = nullptr;      // [rows]
  const uint16_t* table = nullptr;  // [rows][kLogitEntries]
  const int32_t* begin = nullptr;   // [rows], as in tile_logits.h
  const int32_t* end = nullptr;
  int16_t* p = nullptr;    // [rows][64] out; may lie on z
  float* max = nullptr;    // [rows] out
  int32_t* sum = nullptr;  // [rows] out
};
void Lookups(const LookupTile& tile);

}  // namespace tare
