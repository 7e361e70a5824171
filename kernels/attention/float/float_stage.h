// SPDX-License-Identifier: Apache-2.0
// The elementwise steps of fused attention in f32, a tile of rows x 64 keys at a time:
//
//   x          = sum * factor, octaves;   max = max x over the row's visible keys
//   e          = 2^(x - max), 0 where masked;   exp_sum = sum e
//   w          = what 1 of a tile's e is worth in the softmax, lambda included
//   difference = e1 w1 - e2 w2, or e1 w1
//
// 2^f on |f| <= 1/2 by Taylor to degree 5 (next term (ln 2 / 2)^6 / 6! = 2.4e-6 relative), far below what 8 bits
// resolve and at f32's matrix rounding for d = 128.
#pragma once

#include <cstdint>

#include "kernels/attention/row_block.h"

namespace tare {

struct FloatScoreTile {
  int rows = 0;
  const float* sums = nullptr;     // [rows][64]
  float factor = 1;                // attention scale * log2(e)
  const int32_t* begin = nullptr;  // [rows] first visible key; null: all 64 keys of every row are visible
  const int32_t* end = nullptr;    // [rows] one past the last
  float* exps = nullptr;           // [rows][64] out
  float* max = nullptr;            // [rows] out; -inf where nothing is visible
  float* exp_sums = nullptr;       // [rows] out
};
void FloatScores(const FloatScoreTile& tile);

// Of one map's tiles of the whole row. lambda: [rows], null for 1; max, exp_sums: [tiles][rows]; weights: [tiles][rows]
// out, may lie on max.
void FloatWeights(int rows, int tiles, const float* lambda, const float* max, const float* exp_sums, float* weights);

struct FloatDifferences {
  int rows = 0;
  const float* exps1 = nullptr;     // [rows][64]
  const float* exps2 = nullptr;     // [rows][64], or null
  const float* weights1 = nullptr;  // [rows]
  const float* weights2 = nullptr;  // [rows], with exps2
  float* difference = nullptr;      // [rows][64] out; may lie on exps1
};
void FloatDifference(const FloatDifferences& tile);

// 4 keys of `width` channels, stride apart, to columns 0 to 3 of out [width][64]; keys from `count` on become zeros.
// Bits are moved, whatever they mean.
void TransposeFourKeys(const float* keys, int64_t stride, int count, int width, float* out);

}  // namespace tare
