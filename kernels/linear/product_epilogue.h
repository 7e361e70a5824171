// SPDX-License-Identifier: Apache-2.0
// The last step for a tile of integer sums [rows][64] of a quantized linear layer: formula in quantized_linear.h.
#pragma once

#include <cstdint>

namespace tare {

// total = (sums - 128 code_sums) scales, or total += that; code_sums and scales [64], all tiles [rows][64] and aligned.
enum class GroupOrder { kFirst, kLater };
void AddGroup(const int32_t* sums, const int32_t* code_sums, const float* scales, int64_t rows, GroupOrder order,
              float* total);

// y[r, n] = total[r, n] x_scales[r] + bias[n] for n < columns (at most 64); y's rows are y_stride apart; bias or null.
void FinishTile(const float* total, const float* x_scales, const float* bias, int64_t rows, int64_t columns, float* y,
                int64_t y_stride);

}  // namespace tare
