// SPDX-License-Identifier: Apache-2.0
#include "kernels/cache/page_scales.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/elementwise/rows.h"
#include "quant/base/float16.h"
#include "quant/base/integers.h"
#include "quant/format/round.h"

namespace tare {
namespace {

template <typename T>
T NumberAt(const std::byte* from, int64_t index) {
  T value;
  std::memcpy(&value, from + static_cast<int64_t>(sizeof(T)) * index, sizeof(T));
  return value;
}

template <typename T>
void PutNumber(std::byte* to, int64_t index, T value) {
  std::memcpy(to + static_cast<int64_t>(sizeof(T)) * index, &value, sizeof(T));
}

}  // namespace

float PageScales::Get(const std::byte* from, int64_t index) const {
  return held_ == HeldScales::kF16 ? FloatFromF16(NumberAt<uint16_t>(from, index)) : NumberAt<float>(from, index);
}

// Where scales are held in f16, f16 has `value` exactly.
void PageScales::Put(std::byte* to, int64_t index, float value) const {
  held_ == HeldScales::kF16 ? PutNumber(to, index, F16FromFloat(value)) : PutNumber(to, index, value);
}

// The scale of a group, rounded as it is held.
GroupScale PageScales::GroupOf(Ends ends) const {
  if (held_ == HeldScales::kF32) return GroupScaleFor(ends, format_, ends.high);
  const float least = ends.low;
  if (format_.range == CodeRange::kMin) ends.low = FloatFromF16(F16AtMost(least));
  GroupScale group = GroupScaleFor(ends, format_, ends.high);
  const float scale = FloatFromF16(F16AtLeast(group.scale.scale));
  group.scale = {scale > 0 ? 1 / scale : 0.0f, scale};
  if (format_.range == CodeRange::kZero) group.zero = std::nearbyint(std::max(-least, 0.0f) * group.scale.inv);
  return group;
}

void PageScales::Round(const float* values, int n, std::byte* scales, int64_t index, float* codes) const {
  const auto count = static_cast<size_t>(n);
  const Ends ends = HasMinima() ? EndsOf({values, count}, format_) : Ends{0.0f, AbsMax(values, count)};
  const GroupScale group = GroupOf(ends);
  Put(scales, index, group.scale.scale);
  if (HasMinima()) {
    const bool as_it_is = held_ == HeldScales::kF16 && format_.range == CodeRange::kZero;
    Put(scales, count_ + index, as_it_is ? group.zero : group.origin - group.zero * group.scale.scale);
  }
  const FormatInfo& info = Info(format_);
  const auto least = static_cast<float>(info.min_code), most = static_cast<float>(info.max_code);
  for (int i = 0; i < n; ++i) {  // RoundedIn
    const float code = ((values[i] - group.origin) * group.scale.inv + kToNearest) - kToNearest;
    codes[i] = std::clamp(code + group.zero, least, most);
  }
}

// As it was, but for what rounding alone needs.
GroupScale PageScales::At(const std::byte* scales, int64_t index) const {
  GroupScale group{.scale = {.inv = 0.0f, .scale = Get(scales, index)}};
  if (!HasMinima()) return group;
  const float beside = Get(scales, count_ + index);
  if (format_.range == CodeRange::kMin) {
    group.origin = beside;
  } else if (held_ == HeldScales::kF16) {
    group.zero = beside;
  } else if (group.scale.scale > 0) {  // two roundings of at most 255 are far below half a code
    group.zero = std::nearbyint(-beside / group.scale.scale);
  }
  return group;
}

void PageScales::Dequantize(const std::byte* scales, int64_t index, int n, float* values) const {
  const GroupScale group = At(scales, index);
  for (int i = 0; i < n; ++i) values[i] = ValueOf(values[i], group);
}

void PageScales::DequantizeEach(const std::byte* scales, int64_t first, int n, float* values) const {
  for (int i = 0; i < n; ++i) values[i] = ValueOf(values[i], At(scales, first + i));
}

void PageScales::Copy(std::byte* scales, int64_t index, const std::byte* from, int64_t from_index) const {
  Put(scales, index, Get(from, from_index));
  if (HasMinima()) Put(scales, count_ + index, Get(from, count_ + from_index));
}

PageScales::Numbers PageScales::Load(const std::byte* scales, int64_t first, int64_t n, float* memory) const {
  if (held_ == HeldScales::kF32) {
    const auto* begin = reinterpret_cast<const float*>(scales) + first;
    return {begin, HasMinima() ? begin + count_ : nullptr};
  }
  const auto* begin = reinterpret_cast<const uint16_t*>(scales) + first;
  FromF16(begin, static_cast<size_t>(n), memory);
  if (!HasMinima()) return {memory, nullptr};
  float* const minima = memory + n;
  FromF16(begin + count_, static_cast<size_t>(n), minima);
  for (int64_t i = 0; i < n && format_.range == CodeRange::kZero; ++i) minima[i] *= -memory[i];
  return {memory, minima};
}

}  // namespace tare
