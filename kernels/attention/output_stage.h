// SPDX-License-Identifier: Apache-2.0
// The step after the product of a block's codes with V, for 64 columns, and the last step of a row:
//
//   out += (sum - zero[row] * v_sum[column]) * (v_scale[column] * row_scale[row])      zero: the byte that stands for 0
//   to   = out1 * factor1[row] - out2 * factor2[row] + mean * mean_factor[row]         out1, out2: of both maps
//
// Sums and products below 2^24 are exact as f32: all of up to 512 keys, 255 x 127 x 512. Beyond, a sum is rounded once.
#pragma once

#include <cstdint>

#include "kernels/attention/row_block.h"

namespace tare {

struct OutputTile {
  int rows = 0;
  const int32_t* sums = nullptr;      // [rows][64]
  const int32_t* zeros = nullptr;     // [rows]; null: 0
  const int32_t* v_sums = nullptr;    // [64] of the columns' codes, with zeros
  const float* v_scales = nullptr;    // [64]
  const float* row_scales = nullptr;  // [rows]
  float* out = nullptr;               // [rows][64]
};

// Adds to out; Overwrite for a row's first block.
void AddOutput(const OutputTile& tile);
void OverwriteOutput(const OutputTile& tile);

// Past the caches a line is not read before it is written, but whoever reads the result finds it in memory: for results
// that the caches would lose anyway. Only whole lines of 64 bytes go there: rows that begin and end on one.
enum class OutputStore { kCached, kPastCaches };

// The end of a block of rows, one V slice.
struct OutputRows {
  int rows = 0;
  int width = 0;
  const float* out1 = nullptr;  // [rows][stride], whole tiles of 64 columns
  const float* out2 = nullptr;  // the same, or null: one map, or a difference already
  int64_t stride = 0;
  const float* factors1 = nullptr;      // [rows]
  const float* factors2 = nullptr;      // [rows], with out2
  const float* mean = nullptr;          // [width], or null
  const float* mean_factors = nullptr;  // [rows], with mean
  float* to = nullptr;                  // [rows][to_stride]
  int64_t to_stride = 0;
  OutputStore store = OutputStore::kCached;
};
void WriteOutput(const OutputRows& rows);

// After rows stored past the caches, before another thread reads them.
void FlushOutput();

}  // namespace tare
