// SPDX-License-Identifier: Apache-2.0
#include "kernels/cache/page_scales.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "kernels/elementwise/rows.h"
#include "kernels/elementwise/to_nearest.h"
#include "quant/format/quantize.h"

namespace tare {
namespace {

float FloatAt(const std::byte* from, int64_t index) {
  float value;
  std::memcpy(&value, from + 4 * index, 4);
  return value;
}

void PutFloat(std::byte* to, int64_t index, float value) { std::memcpy(to + 4 * index, &value, 4); }

}  // namespace

void PageScales::Round(const float* values, int n, std::byte* scales, int64_t index, float* codes) const {
  const auto count = static_cast<size_t>(n);
  const Ends ends = HasMinima() ? EndsOf({values, count}, format_) : Ends{0.0f, AbsMax(values, count)};
  const GroupScale group = GroupScaleFor(ends, format_, ends.high);
  PutFloat(scales, index, group.scale.scale);
  if (HasMinima()) PutFloat(scales, count_ + index, group.origin - group.zero * group.scale.scale);
  const FormatInfo& info = Info(format_);
  const auto least = static_cast<float>(info.min_code), most = static_cast<float>(info.max_code);
  for (int i = 0; i < n; ++i) {  // RoundedIn
    const float code = ((values[i] - group.origin) * group.scale.inv + kToNearest) - kToNearest;
    codes[i] = std::clamp(code + group.zero, least, most);
  }
}

// As it was, but for what rounding alone needs.
GroupScale PageScales::At(const std::byte* scales, int64_t index) const {
  GroupScale group{.scale = {.inv = 0.0f, .scale = FloatAt(scales, index)}};
  if (!HasMinima()) return group;
  const float minimum = FloatAt(scales, count_ + index);
  if (range_ == CodeRange::kMin) {
    group.origin = minimum;
  } else if (group.scale.scale > 0) {  // two roundings of at most 255 are far below half a code
    group.zero = std::nearbyint(-minimum / group.scale.scale);
  }
  return group;
}

void PageScales::Dequantize(const std::byte* scales, int64_t index, int n, float* values) const {
  const GroupScale group = At(scales, index);
  for (int i = 0; i < n; ++i) values[i] = ValueOf(values[i], group);
}

void PageScales::DequantizeEach(const std::byte* scales, int n, float* values) const {
  for (int i = 0; i < n; ++i) values[i] = ValueOf(values[i], At(scales, i));
}

void PageScales::Copy(std::byte* scales, int64_t index, const std::byte* from, int64_t from_index) const {
  PutFloat(scales, index, FloatAt(from, from_index));
  if (HasMinima()) PutFloat(scales, count_ + index, FloatAt(from, count_ + from_index));
}

}  // namespace tare
