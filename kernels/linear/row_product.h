// SPDX-License-Identifier: Apache-2.0
// One row through a matrix in floating point, the main cost of generating token by token with unquantized weights:
//
//   y[n] = sum over i of x[i] W[n, i] + bias[n]        f32 sums of f32 products, W as it is stored
//
// Reading W takes the time. An output is summed by one thread in one order: bit-equal on any number of threads.
#pragma once

#include "kernels/linear/projector.h"

namespace tare {

// x [in], bias [out] or null, y [out].
void RowProduct(const WeightMatrix& weight, const float* x, const float* bias, float* y);

}  // namespace tare
