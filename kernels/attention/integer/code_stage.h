// SPDX-License-Identifier: Apache-2.0
// From exponentials relative to each tile's maximum to the codes of one key block, the left operand of the product with
// V. Arrays with one entry a row are [tile][rows], so that sixteen rows are computed at once; rows is a multiple of
// kRowStep.
//
// Late order, one map (P's scale is 2^(block maximum) / qmax, normalised at the end by the sum of what the codes are
// worth):
//   M_b  = max over the block's tiles of max;    code = round_half_even(p * (qmax / 32767 * 2^((max_t - M_b) / 2048)))
// Early order, both maps, after all of the row's tiles (w: what 1 of p is worth in the softmax, lambda included):
//   w_m,t = lambda_m / L_m * 2^((max_m,t - M_m) / 2048),  L_m = sum_t sum_m,t 2^((max_m,t - M_m) / 2048)
//   g     = max over the block's tiles of a bound of |p1 w1 - p2 w2| / 32767;   a_m,t = round(w_m,t / g * 32767)
//   D     = round(p1 a_1 / 2^15) - round(p2 a_2 / 2^15), 16 bits;   code = round_half_even(D * inv) + zero, a byte
//   signed formats: inv = qmax / max |D|, zero = 128; unsigned: zero_point.h's of D's two ends. D * inv is not rounded
//   before
#pragma once

#include <cstdint>

#include "kernels/attention/integer/score_stage.h"
#include "quant/format/format.h"

namespace tare {

// Late. max: [tiles][rows] of the block's tiles. Writes block_max [rows] and factors [tiles][rows].
void LateFactors(int rows, int tiles, int qmax, const float* max, float* block_max, float* factors);

struct LateCodes {
  int rows = 0;
  int tiles = 0;
  const int16_t* p = nullptr;  // [tiles][rows][64], a tile tile_stride behind the last
  int64_t tile_stride = 0;
  const float* factors = nullptr;  // [tiles][rows]
  uint8_t* codes = nullptr;        // [rows][stride] out
  int64_t stride = 0;
  int32_t* sums = nullptr;  // [rows] out: of the codes
};
void LateStage(const LateCodes& block);

// Early. One map's tiles of the whole row: turns max into w in place. lambda: [rows], null for 1.
void EarlyWeights(int rows, int tiles, const float* lambda, const int32_t* sums, float* max);

// Of one block. w1, w2: [tiles][rows]; writes a1, a2 [tiles][rows] and unit [rows], what 1 of D is worth.
void EarlyFactors(int rows, int tiles, const float* w1, const float* w2, int16_t* a1, int16_t* a2, float* unit);

struct EarlyCodes {
  int rows = 0;
  int tiles = 0;
  Format format = Format::kInt8;
  const int16_t* p1 = nullptr;  // [tiles][rows][64], a tile tile_stride behind the last
  const int16_t* p2 = nullptr;
  int64_t tile_stride = 0;
  const int16_t* a1 = nullptr;  // [tiles][rows]
  const int16_t* a2 = nullptr;
  uint8_t* codes = nullptr;  // [rows][stride] out
  int64_t stride = 0;
  float* scales = nullptr;   // [rows] in: unit; out: what 1 of a code is worth
  int32_t* zeros = nullptr;  // [rows] out: the byte of 0
};
void EarlyStage(const EarlyCodes& block);

}  // namespace tare
