// SPDX-License-Identifier: Apache-2.0
#include "experiments/export/joined_rows.h"

#include <algorithm>

#include "quant/base/error.h"

namespace tare {
namespace {

bool SameKind(const QuantizedMatrix& a, const QuantizedMatrix& b) {
  return a.format == b.format && a.in == b.in && a.group == b.group && a.of_tensor == b.of_tensor &&
         a.rotation == b.rotation && (a.scale_codes == nullptr) == (b.scale_codes == nullptr);
}

template <typename T>
void Append(std::vector<T>& to, const T* from, int64_t count) {
  if (from != nullptr) to.insert(to.end(), from, from + count);
}

template <typename T>
const T* DataOf(const std::vector<T>& values) {
  return values.empty() ? nullptr : values.data();
}

}  // namespace

TensorView JoinedTensor(const std::string& name, std::span<const TensorView> parts, AlignedBuffer<std::byte>& memory) {
  TensorView whole = parts.front();
  whole.name = name;
  whole.shape[0] = 0;
  size_t size = 0;
  for (const TensorView& part : parts) {
    TARE_CHECK(part.dtype == whole.dtype && std::ranges::equal(part.shape.begin() + 1, part.shape.end(),
                                                               whole.shape.begin() + 1, whole.shape.end()));
    whole.shape[0] += part.shape[0];
    size += part.bytes.size();
  }
  memory = AlignedBuffer<std::byte>(size);
  std::byte* end = memory.data();
  for (const TensorView& part : parts) end = std::ranges::copy(part.bytes, end).out;
  whole.bytes = memory.span();
  return whole;
}

std::optional<JoinedMatrix> JoinedMatrix::Of(std::span<const QuantizedMatrix* const> parts) {
  JoinedMatrix joined;
  joined.view_ = *parts.front();
  joined.view_.out = 0;
  for (const QuantizedMatrix* part : parts) {
    if (!SameKind(*part, *parts.front())) return std::nullopt;
    const int64_t groups = part->out * part->Groups();
    Append(joined.codes_, part->codes, part->out * static_cast<int64_t>(part->RowBytes()));
    Append(joined.scales_, part->scales, groups);
    Append(joined.scale_codes_, part->scale_codes, groups);
    Append(joined.zeros_, part->zeros, groups);
    Append(joined.minima_, part->minima, groups);
    joined.view_.out += part->out;
  }
  joined.view_.codes = joined.codes_.data();
  joined.view_.scales = DataOf(joined.scales_);
  joined.view_.scale_codes = DataOf(joined.scale_codes_);
  joined.view_.zeros = DataOf(joined.zeros_);
  joined.view_.minima = DataOf(joined.minima_);
  return joined;
}

}  // namespace tare
