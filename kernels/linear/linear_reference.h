// SPDX-License-Identifier: Apache-2.0
// The reference for quantized linear layers: one value at a time, integers in 64 bits, scales in double. It shares only
// the rounding of quant/format with the kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "quant/format/format.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

struct LinearReference {
  // [rows][out][groups]: products of codes, those of weights less their zero point; a grid's values count in steps
  std::vector<int64_t> sums;
  std::vector<double> y;  // [rows][out]
};

// x [rows, in], one scale per row; bias [out] or null.
LinearReference ReferenceLinear(const float* x, int64_t rows, Format activation, const QuantizedMatrix& weight,
                                const float* bias);

}  // namespace tare
