// SPDX-License-Identifier: Apache-2.0
// The elementwise steps of fused attention in f32, a tile of rows x 64 keys at a time:
//
//   x = sum * factor (octaves);  max = max x over the row's visible keys;  p = 2^(x - max), 0 where masked;  sum = sum
//   p difference: p1 w1 - p2 w2, or p1 w1, with w what 1 of p is worth in the softmax (lambda included), in place of p1
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
  const int32_t* begin = nullptr;  // [rows], as in tile_logits.h
  const int32_t* end = nullptr;
  float* p = nullptr;    // [rows][64] out
  float* max = nullptr;  // [rows] out, octaves; -inf where nothing is visible
  float* sum = nullptr;  // [rows] out
};
void FloatScores(const FloatScoreTile& tile);

// One map's tiles of a row: turns max into w in place. lambda: [rows], null for 1.
void FloatWeights(int rows, int tiles, const float* lambda, const float* sums, float* max);

struct FloatDifferences {
  int rows = 0;
  float* p1 = nullptr;        // [rows][64], becomes the difference
  const float* p2 = nullptr;  // [rows][64], or null
  const float* w1 = nullptr;  // [rows]
  const float* w2 = nullptr;  // [rows]
};
void FloatDifference(const FloatDifferences& tile);

// 4 keys of `width` channels, stride apart, to columns 0 to 3 of out [width][64]; keys behind `count` become zeros.
// Bits are moved, whatever they mean.
void TransposeFourKeys(const float* keys, int64_t stride, int count, int width, float* out);

}  // namespace tare
