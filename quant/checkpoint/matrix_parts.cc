// SPDX-License-Identifier: Apache-2.0
#include "quant/checkpoint/matrix_parts.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "quant/base/parallel.h"

namespace tare {
namespace {

[[noreturn]] void FailNotFinite(const std::string& tensor, int64_t index) {
  Fail("tensor '{}', index {}: NaN or infinity; expected finite weights; try saving the checkpoint again", tensor,
       index);
}

// y[r][i] = value r of line i of `lines`, `stride` bytes apart; whether all are finite. A loop for each type.
template <DType kType>
bool Transpose(const std::byte* from, size_t stride, int64_t lines, int64_t count, float* y) {
  constexpr size_t kBytes = kType == DType::kF32 ? 4 : 2;
  bool finite = true;
  for (int64_t i = 0; i < lines; ++i, from += stride) {
    for (int64_t r = 0; r < count; ++r) {
      const float value = FloatAt(kType, from + static_cast<size_t>(r) * kBytes);
      y[r * lines + i] = value;
      finite &= std::isfinite(value);
    }
  }
  return finite;
}

// The first value that is not finite, or count. A part's loop has no exit, so that it becomes vectors.
template <DType kType>
int64_t FirstNotFinite(const std::byte* from, int64_t count) {
  constexpr size_t kBytes = kType == DType::kF32 ? 4 : 2;
  constexpr int64_t kPart = 1 << 16;
  std::atomic<bool> all_finite = true;
  const auto is_finite = [&](int64_t i) {
    return std::isfinite(FloatAt(kType, from + static_cast<size_t>(i) * kBytes));
  };
  ParallelForBlocks(count, kPart, [&](int64_t begin, int64_t values) {
    bool finite = true;
    for (int64_t i = begin; i < begin + values; ++i) finite &= is_finite(i);
    if (!finite) all_finite = false;
  });
  int64_t first = all_finite ? count : 0;
  while (first < count && is_finite(first)) ++first;
  return first;
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

void TransposedMatrix::Rows(int64_t first, int64_t count, float* y) const {
  const size_t bytes = Bits(tensor_.dtype) / 8;
  const std::byte* const from = tensor_.bytes.data() + static_cast<size_t>(first_ + first) * bytes;
  const size_t stride = static_cast<size_t>(out()) * bytes;
  const bool finite = tensor_.dtype == DType::kF32    ? Transpose<DType::kF32>(from, stride, in(), count, y)
                      : tensor_.dtype == DType::kBF16 ? Transpose<DType::kBF16>(from, stride, in(), count, y)
                                                      : Transpose<DType::kF16>(from, stride, in(), count, y);
  for (int64_t i = 0; !finite && i < count * in(); ++i) {
    if (!std::isfinite(y[i])) FailNotFinite(tensor_.name, first_ + i % in() * out() + first + i / in());
  }
}

std::optional<ForeignMatrix::Columns> TransposedMatrix::columns() const {
  const std::byte* const values = tensor_.bytes.data() + static_cast<size_t>(first_) * Bits(tensor_.dtype) / 8;
  std::call_once(looked_through_, [&] {
    const int64_t count = in() * out();
    const int64_t bad = tensor_.dtype == DType::kF32    ? FirstNotFinite<DType::kF32>(values, count)
                        : tensor_.dtype == DType::kBF16 ? FirstNotFinite<DType::kBF16>(values, count)
                                                        : FirstNotFinite<DType::kF16>(values, count);
    if (bad < count) FailNotFinite(tensor_.name, first_ + bad);
  });
  using Type = Columns::Type;
  return Columns{values, tensor_.dtype == DType::kF32    ? Type::kF32
                         : tensor_.dtype == DType::kBF16 ? Type::kBf16
                                                         : Type::kF16};
}

}  // namespace tare
