// SPDX-License-Identifier: Apache-2.0
// What follows the product of a block's codes with V, for 64 columns: out += (sum - zero[row] * v_sum[column]) *
// (v_scale[column] * row_scale[row]); zero: the byte that stands for 0. And the last step of a row.
#pragma once

#include <cstdint>

#include "kernels/attention/row_block.h"

namespace tare {

struct OutputTile {
  int rows = 0;
  const int32_t* sums = nullptr;      // [rows][64]
  const int32_t* v_sums = nullptr;    // [64] of the columns' codes
  const int32_t* zeros = nullptr;     // [rows]
  const float* v_scales = nullptr;    // [64]
  const float* row_scales = nullptr;  // [rows]
  float* out = nullptr;               // [rows][stride], 64 columns of it
  int64_t stride = 0;
};

// Adds to out; Overwrite for a row's first block.
void AddOutput(const OutputTile& tile);
void OverwriteOutput(const OutputTile& tile);

// The end of a block of rows, one V slice: to = first * one - second * two + rest * mean.
struct OutputRows {
  int rows = 0;
  int width = 0;
  const float* first = nullptr;   // [rows][stride]
  const float* second = nullptr;  // the same of map 2, or null
  int64_t stride = 0;
  const float* one = nullptr;   // [rows]
  const float* two = nullptr;   // [rows], with second
  const float* mean = nullptr;  // [width], or null
  const float* rest = nullptr;  // [rows], with mean
  float* to = nullptr;          // [rows][to_stride]
  int64_t to_stride = 0;
};
void WriteOutput(const OutputRows& rows);

}  // namespace tare
