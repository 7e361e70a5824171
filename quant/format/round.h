// SPDX-License-Identifier: Apache-2.0
// THE rounding of values to codes. References, kernels and file writers all mean this, bit for bit:
//
//   inv   = qmax / absmax                     in f32, once for all values that share a scale
//   code  = clamp(round_half_even(x * inv))   one product in f32 per value
//   scale = absmax / qmax                     value = code * scale
//
// For int8 and absmax 2: inv 63.5, scale 0.015748031; x 0.5 -> 31.75 -> 32, x -0.0078740157 (half a step) -> -0.5 -> 0.
// A group whose absmax is below 2^-100 has scale 0 and codes 0: inv would overflow near the smallest floats.
#pragma once

#include <algorithm>
#include <cmath>

#include "quant/format/format.h"

namespace tare {

inline constexpr float kSmallestAbsmax = 0x1p-100f;

struct Scale {
  float inv;    // codes per unit; 0 for a group that is nothing but zeros
  float scale;  // value of one code; 0 with inv 0
};

// absmax: finite, >= 0. Source: design of absmax quantization in Dettmers et al., arXiv 2208.07339, eq. 1, symmetric.
inline Scale ScaleFor(float absmax, Format format) {
  const float qmax = static_cast<float>(Info(format).max_code);
  if (absmax < kSmallestAbsmax) return {0.0f, 0.0f};
  return {qmax / absmax, absmax / qmax};
}

// std::nearbyint rounds half to even in the default rounding mode, which nothing here changes.
inline int CodeOf(float value, float inv, Format format) {
  const FormatInfo& info = Info(format);
  const float code = std::nearbyint(value * inv);
  return static_cast<int>(std::clamp(code, static_cast<float>(info.min_code), static_cast<float>(info.max_code)));
}

}  // namespace tare
