// SPDX-License-Identifier: Apache-2.0
// From exponentials e relative to each tile's maximum to the codes of one key block, the left operand of the product
// with V: from the order that score_stage.h leaves to that of the keys. Arrays with one entry per row are [tile][rows],
// so that sixteen rows are computed at once; rows is a multiple of kRowStep.
//
// Late order, one map. A code is worth 2^(block maximum) / qmax; what the codes are worth sums to the row's norm:
//
//   M_b    = max over the block's tiles of max
//   code   = round_half_even(e * (qmax / 32767 * 2^((max_t - M_b) / 2048)))
//
// and over a row's blocks b in order, from reference R = -inf and norm = 0:
//
//   if M_b > R + 60 octaves:   all that was summed shrinks by 2^((R - M_b) / 2048);   R = M_b
//   scale_b = 2^((M_b - R) / 2048);   norm += scale_b * sum of the block's codes
//
// f32 has the exponents to keep a row's first maximum as its reference until a block exceeds it by 60 octaves.
//
// With one scale per row M_b is the row's maximum. Unnormalized maps' norm counts unrounded e * (...), by tiles' sums.
//
// Early order, both maps m, after all of the row's tiles t. Weight w: what 1 of e is worth in the softmax, with lambda:
//
//   L_m    = sum_t exp_sum_m,t 2^((max_m,t - M_m) / 2048)                M_m = max over all of the row's tiles
//   w_m,t  = lambda_m / L_m * 2^((max_m,t - M_m) / 2048)                 lambda_1 = 1
//   g      = max over the block's tiles of a bound of |e1 w1 - e2 w2| / 32767
//   a_m,t  = round(w_m,t / g * 32767)
//   D      = round(e1 a_1 / 2^15) - round(e2 a_2 / 2^15)                 16 bits
//   code   = round_half_even(D * inv) + zero                             a byte; D * inv is not rounded before
//
//   signed formats: inv = qmax / max |D|, zero = 128; unsigned: round.h's of D's two ends
#pragma once

#include <cstdint>

#include "kernels/attention/row_block.h"
#include "quant/format/format.h"

namespace tare {

struct LateCodes {
  int rows = 0;
  int tiles = 0;                  // of the block
  float qmax = 255;               // may lie between codes
  const float* max = nullptr;     // [tiles][rows]
  const int16_t* exps = nullptr;  // [tiles][rows][64], a tile tile_stride after the last
  int64_t tile_stride = 0;
  uint8_t* codes = nullptr;  // [rows][stride] out
  int64_t stride = 0;
  const float* row_max = nullptr;     // [rows]: M_b of a scale per row; null: the block's own
  const int32_t* exp_sums = nullptr;  // [tiles][rows]: for sums before rounding; null: of the codes
  float* block_max = nullptr;         // [rows] out: M_b
  float* sums = nullptr;              // [rows] out: sums of the codes
};
void LateStage(const LateCodes& block);

// Some blocks of one map, merged at once.
struct LateMerge {
  int rows = 0;
  int blocks = 0;
  const float* block_max = nullptr;  // [blocks][rows]
  const float* code_sums = nullptr;  // [blocks][rows]
  float* reference = nullptr;        // [rows], of the blocks before
  float* norm = nullptr;             // [rows], of the blocks before
  float* row_scales = nullptr;       // [blocks][rows] out
  float* shrinks = nullptr;          // [rows] out: factors for the sums of the blocks before
};
// Returns whether any of shrinks is not 1.
bool MergeBlocks(const LateMerge& blocks);

// The weights w of one map's tiles in a row, and M of each row. lambda: [rows], null for 1; max, exp_sums:
// [tiles][rows]; largest: [rows] out; weights: [tiles][rows] out, may lie on max.
void EarlyWeights(int rows, int tiles, const float* lambda, const float* max, const int32_t* exp_sums, float* largest,
                  float* weights);

struct EarlyCodes {
  int rows = 0;
  int tiles = 0;  // of the block
  Format format = Format::kInt8;
  const float* weights1 = nullptr;  // [tiles][rows]
  const float* weights2 = nullptr;
  const int16_t* exps1 = nullptr;  // [tiles][rows][64], a tile tile_stride after the last
  const int16_t* exps2 = nullptr;
  int64_t tile_stride = 0;
  uint8_t* codes = nullptr;  // [rows][stride] out
  int64_t stride = 0;
  float* scales = nullptr;   // [rows] out: what 1 of a code is worth
  int32_t* zeros = nullptr;  // [rows] out: the byte of 0
};
void EarlyStage(const EarlyCodes& block);

}  // namespace tare
