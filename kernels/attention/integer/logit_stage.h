// SPDX-License-Identifier: Apache-2.0
// Quantized attention logits, executed: a row's logits become b-bit codes with the row's absmax over all its visible
// keys, and the exponential is a table of what the codes can differ by. Takes score_stage.h's place in three steps, and
// gives the same exps, max and exp_sums.
//
//   LogitStage     z of score_stage.h, kept, 0 where masked;   absmax = max |z| over the row's tiles
//   LogitTables    inv = qmax / absmax;   step = absmax / qmax * row_factor, 1/2048 octaves per code
//                  table[i] = FixedExp2(min(round(i * step), 32767))
//   LookupStage    code = round_half_even(z * inv)
//                  e = table[largest code of the tile - code], 0 where masked;   max = largest code * step
//
// z is in the order of the product's columns, e in that of exponentials (tile_order.h).
//
// int6 and int4: 64 entries of 16 bits are two vector registers, one instruction looks 32 keys up (AVX-512). Elsewhere,
// and for int8, the table's formula is computed for each key, which beats loading entries one by one.
#pragma once

#include <cstdint>

#include "kernels/attention/integer/score_stage.h"

namespace tare {

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
  const int32_t* begin = nullptr;   // [rows], as in score_stage.h
  const int32_t* end = nullptr;     // [rows]
  int16_t* exps = nullptr;          // [rows][64] out; may begin where logits do
  float* max = nullptr;             // [rows] out
  int32_t* exp_sums = nullptr;      // [rows] out
};
void LookupStage(const LookupTile& tile);

}  // namespace tare
