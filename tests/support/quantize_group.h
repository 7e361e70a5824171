// SPDX-License-Identifier: Apache-2.0
// The codes of values that share a scale, by round.h's definitions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "quant/format/round.h"

namespace tare {

// Writes codes of an integer format without an offset, returns the scale. Values must be finite.
inline float QuantizeGroup(std::span<const float> values, const Format& format, std::span<int16_t> codes) {
  const Scale scale = ScaleFor(AbsMax(values), format);
  std::ranges::transform(values, codes.begin(),
                         [&](float x) { return static_cast<int16_t>(CodeOf(x, scale.inv, format)); });
  return scale.scale;
}

}  // namespace tare
