// SPDX-License-Identifier: Apache-2.0
// A tile's product of Q and K, and what turns its sums into logits (tile_logits-inl.h), in units of the row's q scale:
//
//   z = float(sum + offset[key]) * key_scale[key]     offset = -128 * sum of the key's codes: Q is fed as code + 128
//   z = fma(key_bias[key], row_inv[row], that)        where a mean was subtracted from Q (key_bias.h); row_inv = 1 / q
//                                                     scale
//
// z is rounded by the product and the FMA alone: the same on every instruction set that has FMA.
#pragma once

#include <cstdint>

#include "kernels/attention/row_block.h"

namespace tare {

struct LogitSums {
  int rows = 0;
  const int32_t* sums = nullptr;      // [rows][64]
  const int32_t* offsets = nullptr;   // [64]
  const float* key_scales = nullptr;  // [64]
  const float* key_bias = nullptr;    // [64], or null: Q is not smoothed
  const float* row_inv = nullptr;     // [rows], with key_bias
  const int32_t* begin = nullptr;  // [rows] first visible key of the tile; null: all 64 keys of every row are visible
  const int32_t* end = nullptr;    // [rows] one behind the last
};

}  // namespace tare
