// SPDX-License-Identifier: Apache-2.0
// The last step for a tile of integer sums [rows][64] of a quantized linear layer: formula in quantized_linear.h.
#pragma once

#include <cstdint>

namespace tare {

// The weights of a group: code_sums, scales and offsets [64]; offsets may be null.
struct GroupWeights {
  const int32_t* code_sums;
  const float *scales, *offsets;
};

// Of the group's input codes, whole numbers; row r's is at r * stride. Read only with offsets.
struct InputSums {
  const float* sums = nullptr;
  int64_t stride = 0;
};

// total = (sums - 128 code_sums) scales + x_sums offsets, or total += that; all tiles [rows][64] and aligned.
enum class GroupOrder { kFirst, kLater };
void AddGroup(const int32_t* sums, const GroupWeights& weights, const InputSums& x_sums, int64_t rows, GroupOrder order,
              float* total);

// y[r, n] = total[r, n] x_scales[r] + bias[n] for n < columns (at most 64); y's rows are y_stride apart; bias or null.
void FinishTile(const float* total, const float* x_scales, const float* bias, int64_t rows, int64_t columns, float* y,
                int64_t y_stride);

}  // namespace tare
