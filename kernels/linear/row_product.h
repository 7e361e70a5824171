// SPDX-License-Identifier: Apache-2.0
// One row through a floating-point matrix, the main cost of generating token by token with unquantized weights:
//
//   y[n] = sum over i of x[i] W[n, i] + bias[n]        f32 sums of f32 products, W as stored
//
// Of bf16 factors, values of other types are rounded as they are read, to the nearest, ties to even; x is bf16 already.
// Reading W takes the time. One thread sums each output in a fixed order: bit-equal on any number of threads.
#pragma once

#include "kernels/linear/projector.h"

namespace tare {

// x [in], bias [out] or null, y [out].
void RowProduct(const DenseMatrix& weight, Math math, const float* x, const float* bias, float* y);

}  // namespace tare
