// SPDX-License-Identifier: Apache-2.0
// Rounds weights to codes without data: each group by itself, to the nearest code (quant/format/round.h, bit for bit).
//
//   kAbsmax        the largest magnitude becomes the largest code; with a zero point or a minimum, the two ends do
//   kLeastSquares  clips at absmax * (1 - i / 64), i = 0 .. 31, whichever gives the group the least squared error; the
//                  first of equals. With a zero point both ends are multiplied, as GPTQ does; with a minimum the range
//                  shrinks about its middle
//
// Four over six (grid.h) first chooses between the largest magnitude and 1.5 times it, IF4 between its two grids.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "quant/format/quantized_matrix.h"

namespace tare {

// Rounds a row of NVFP4 by two levels of its own: t = the row's absmax / (448 L), L the grid's largest value. A block's
// codes are those of its exact scale a = absmax / L, and what they stand for that of E4M3(a / t) t, which is 0 below
// 2^-10: SageAttention 3's probabilities (thu-ml/SageAttention d1a57a5, softmax_fused.h). Values are finite.
void RoundInBlocksOfRow(std::span<float> row, const Format& format);

using ReadRow = std::function<void(int64_t row, float* values)>;

enum class ClipChoice { kAbsmax, kLeastSquares };

// The ends that set the scale of n finite values. tensor_absmax: the largest of all that share the format's f32 per
// tensor. importance: n factors >= 0 of the squared errors in kLeastSquares; null: all 1.
Ends ChooseEnds(const float* values, int64_t n, const Format& format, ClipChoice choice, float tensor_absmax = 0,
                const float* importance = nullptr);
// clip, or of less squared error: 1.5 clip for four over six, -clip, which asks for sevenths (round.h), for IF4.
float BlockEnd(const float* values, int64_t n, const Format& format, float clip, float tensor_absmax);

// Chooses the ends that determine the scale of group g, n values of a row.
using GroupEnds = std::function<Ends(int64_t row, int64_t g, const float* values, int64_t n)>;

GroupEnds EndsBy(ClipChoice choice, const Format& format, float tensor_absmax = 0);

// The values that n values of a group are rounded to.
void RoundedValues(const float* values, int64_t n, const GroupScale& group, const Format& format, float* rounded);

// Rounds a row of `in` values into a matrix. Throws Error for a value not finite, naming its index, or a row not there.
void RoundRowToNearest(const float* row, ClipChoice choice, QuantizedMatrixBuffer& matrix, int64_t index);
void RoundRowToNearest(const float* row, const GroupEnds& ends, QuantizedMatrixBuffer& matrix, int64_t index);

}  // namespace tare
