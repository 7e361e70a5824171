// SPDX-License-Identifier: Apache-2.0
// Rounds weights to codes without data: each group by itself, to the nearest code (quant/format/round.h, bit for
// bit).
//
//   kAbsmax        the largest magnitude becomes the largest code
//   kLeastSquares  clips at absmax * (1 - i / 64), i = 0 .. 31, whichever gives the group the least squared error; the
//                  first of equals
//                  squared error of the group; the first of equals
#pragma once

#include <cstdint>

#include "quant/format/quantized_matrix.h"

namespace tare {

enum class ClipChoice { kAbsmax, kLeastSquares };

// The magnitude that becomes the largest code, for n finite values.
float ChooseClip(const float* values, int64_t n, Format format, ClipChoice choice);

// Rounds one row of `in` values into its place in a matrix. Throws Error, naming the index, for a value that is not
// finite.
void RoundRowToNearest(const float* row, ClipChoice choice, QuantizedMatrixBuffer& matrix, int64_t index);
// The same with a clip that all groups share: one scale per tensor.
void RoundRowWithClip(const float* row, float clip, QuantizedMatrixBuffer& matrix, int64_t index);

}  // namespace tare
