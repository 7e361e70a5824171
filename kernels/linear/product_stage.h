// SPDX-License-Identifier: Apache-2.0
// The steps before and after the integer products of a quantized linear layer (formula in quantized_linear.h): rows of
// activations to codes, one scale per row, as the unsigned operand of u8 x s8 products: exactly the codes of
// quant/format/round.h, plus 128. The scale is dynamic, from the row's largest magnitude, or static, from a given clip;
// or each block of a row has a step. And tiles of integer sums [rows][64] to outputs.
#pragma once

#include <cstdint>
#include <optional>

#include "quant/format/format.h"

namespace tare {

// x [n], codes [padded], with padded a multiple of 16 and at least n; codes after the last value are 128 (code 0).
// Returns the scale; if a value is not finite, NaN and undefined codes. Needs no alignment. clip: the magnitude that
// becomes the largest code; empty: the row's largest.
float ToTokenCodes(const float* x, int64_t n, Format format, std::optional<float> clip, uint8_t* codes, int64_t padded);

// As ToTokenCodes, for a format of blocks with integers times a step (AsStepCodes): integers + 128, and of each block
// the step times the format's scale. tensor_absmax: as in ScaleFor. Returns 1, or NaN likewise.
float ToBlockCodes(const float* x, int64_t n, const Format& format, float tensor_absmax, uint8_t* codes, int64_t padded,
                   float* steps);

// The weights of a group: code_sums, scales and offsets [64]; offsets may be null.
struct GroupWeights {
  const int32_t* code_sums;
  const float *scales, *offsets;
};

// The inputs that a group of weights multiplies: the sums of their codes, times steps, read only with offsets; and
// their steps, or null: 1. Row r's are at r * stride and r * step_stride.
struct PartInputs {
  const float* sums = nullptr;
  int64_t stride = 0;
  const float* steps = nullptr;
  int64_t step_stride = 0;
};

// total = (sums - 128 code_sums) (scales steps) + x.sums offsets, or total += that; all tiles [rows][64] and aligned.
enum class GroupOrder { kFirst, kLater };
void AddGroup(const int32_t* sums, const GroupWeights& weights, const PartInputs& x, int64_t rows, GroupOrder order,
              float* total);

// y[r, n] = total[r, n] x_scales[r] + bias[n] for n < columns (at most 64); y's rows are y_stride apart; bias or null.
void FinishTile(const float* total, const float* x_scales, const float* bias, int64_t rows, int64_t columns, float* y,
                int64_t y_stride);

}  // namespace tare
