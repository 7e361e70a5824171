// SPDX-License-Identifier: Apache-2.0
// The elementwise steps of attention in f32, a tile of rows x 64 keys at a time; rows of a tile lie `stride` apart:
//
//   e          = 2^(logit log2(e) - max), 0 where masked;   max: of the row's visible keys;   exp_sum = sum e
//   w          = what 1 of a tile's e is worth in the softmax
//   difference = e1 w1 - lambda e2 w2, or e1 w1
//
// 2^f on |f| <= 1/2 by a polynomial of degree 5 within 2.1e-7, its f32 roundings included. NaN and infinite logits make
// their row NaN, and so does a largest one of kMostLogit or more in magnitude (heads.h); -infinity beside others is 0.
#pragma once

#include <cstdint>

#include "kernels/attention/row_block.h"

namespace tare {

struct FloatScoreTile {
  int rows = 0;
  float* values = nullptr;  // [rows][64]: logits in, e out
  int64_t stride = kTile;
  const int32_t* begin = nullptr;  // [rows] first visible key; null: all 64 keys of every row are visible
  const int32_t* end = nullptr;    // [rows] one past the last
  float* max = nullptr;            // [rows] out, octaves; -inf where nothing is visible
  float* exp_sums = nullptr;       // [rows] out
};
void FloatScores(const FloatScoreTile& tile);

// The weights w of one map's tiles in a row. max, exp_sums: [tiles][rows]; weights: [tiles][rows] out, may lie on max.
void FloatWeights(int rows, int tiles, const float* max, const float* exp_sums, float* weights);

struct FloatDifferences {
  int rows = 0;
  int64_t stride = kTile;           // of exps and of the difference
  const float* exps1 = nullptr;     // [rows][64]
  const float* exps2 = nullptr;     // [rows][64], or null
  const float* weights1 = nullptr;  // [rows]
  const float* weights2 = nullptr;  // [rows], with exps2
  const float* lambda = nullptr;    // [rows], with exps2
  float* difference = nullptr;      // [rows][64] out; may lie on exps1
};
void FloatDifference(const FloatDifferences& tile);

// 4 keys of `width` channels, null for zeros, to columns 0 to 3 of out [width][64]. Bits are moved, whatever they mean.
void TransposeFourKeys(const float* const* keys, int width, float* out);

}  // namespace tare
