// SPDX-License-Identifier: Apache-2.0
#include "quant/file/transposed_matrix.h"

#include <cmath>
#include <cstring>

#include "quant/base/error.h"
#include "quant/base/float16.h"

namespace tare {
namespace {

float ValueAt(const TensorView& tensor, int64_t i) {
  const std::byte* const at = tensor.bytes.data() + i * (Bits(tensor.dtype) / 8);
  if (tensor.dtype == DType::kF32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return tensor.dtype == DType::kBF16 ? FloatFromBf16(bits) : FloatFromF16(bits);
}

}  // namespace

TransposedMatrix::TransposedMatrix(const TensorView& tensor, int64_t index, std::function<void()> release)
    : ForeignMatrix(tensor.shape.at(2), tensor.shape.at(1)),
      tensor_(tensor),
      first_(index * in() * out()),
      release_(std::move(release)) {
  if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kBF16 && tensor.dtype != DType::kF16)
    Fail("tensor '{}': got dtype {}, expected F32, BF16 or F16", tensor.name, Name(tensor.dtype));
}

void TransposedMatrix::Row(int64_t row, float* y) const {
  for (int64_t i = 0; i < in(); ++i) {
    y[i] = ValueAt(tensor_, first_ + i * out() + row);
    if (!std::isfinite(y[i]))
      Fail("tensor '{}', index {}: NaN or infinity; expected finite weights; try saving the checkpoint again",
           tensor_.name, first_ + i * out() + row);
  }
}

}  // namespace tare
