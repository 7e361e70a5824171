// SPDX-License-Identifier: Apache-2.0
// Integer codes of Tare's own as GGUF blocks of 32, code by code: nothing is rounded but scales and minima, which
// blocks have in f16.
//
//   Q4_0   int4, int4+full                       d = scale, q = code + 8
//   Q8_0   int8, int6, int4, and +full of each   d = scale, q = code
//   Q4_1   int4+min, int4+zero                   d = scale, m = minimum or -zero scale, q = code
//
// Groups are multiples of 32: their blocks repeat the scale.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format/quantized_matrix.h"
#include "quant/interchange/gguf/tensor_type.h"

namespace tare::gguf {

// Whether blocks of the type hold the matrix's codes.
bool HoldsCodes(TensorType type, const QuantizedMatrix& matrix);

struct RoundedScales {
  int64_t groups = 0, rounded = 0;  // whose scale or minimum is no f16
  bool fit = true;                  // false, with the blocks unspecified: one is beyond F16, or a scale becomes 0
};

// A row's blocks, of a type that holds its codes. Throws Error as DequantizeRow does, for what no quantizer writes.
RoundedScales PutCodes(TensorType type, const QuantizedMatrix& matrix, int64_t row, std::byte* data);

}  // namespace tare::gguf
