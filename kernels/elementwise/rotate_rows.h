// SPDX-License-Identifier: Apache-2.0
// Rows rotated by a Hadamard matrix in f32, for kernels that round what is rotated: the sums of Hadamard::Rotate
// (quant/format/hadamard.h), which adds in double. With B rows of Paley's matrix (1 for powers of two) and runs of r
// channels, a value differs from the exact one by at most (B + log2(r / B) + 3) 2^-24 times the sum of its run's
// magnitudes over sqrt(r). x may be y. SIMD is chosen at run time (Highway).
#pragma once

#include <cstdint>

#include "quant/format/hadamard.h"

namespace tare {

// y = x R, and y = x R^T: one row of rotation.size() values.
void RotateRow(const Hadamard& rotation, const float* x, float* y);
void RotateRowBack(const Hadamard& rotation, const float* x, float* y);

// y = x R for dense rows. Uses all threads.
void RotateRows(const Hadamard& rotation, const float* x, int64_t rows, float* y);

}  // namespace tare
