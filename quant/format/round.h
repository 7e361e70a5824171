// SPDX-License-Identifier: Apache-2.0
// The one definition of rounding values to codes. References, kernels and file writers all follow it, bit for bit:
//
//   inv   = qmax / absmax                     in f32, once for all values that share a scale
//   code  = clamp(round_half_even(x * inv))   one product in f32 per value
//   scale = absmax / qmax                     value = code * scale
//
// For int8 and absmax 2: inv 63.5, scale 0.015748031; x 0.5 -> 31.75 -> 32, x -0.0078740157 (half a step) -> -0.5 -> 0.
// A group whose absmax is below 2^-100 has scale 0 and codes 0: inv would overflow near the smallest floats.
//
// Other formats follow the same three lines, with their grid's largest value as qmax and its nearest value (grid.h) as
// the code. If their scales are formats themselves, block_scale.h computes the scale, and inv is 1 / scale; then only a
// group of zeros has scale 0 (NVFP4: a tensor below 2^-100).
#pragma once

#include <algorithm>
#include <cmath>

#include "quant/format/format.h"

namespace tare {

inline constexpr float kSmallestAbsmax = 0x1p-100f;

struct Scale {
  float inv;    // codes per unit; 0 for a group of zeros
  float scale;  // value of one code; 0 with inv 0
};

// absmax: finite, >= 0; for ternary the mean magnitude. tensor_absmax: the largest magnitude of all values that share
// the format's f32 per tensor, if it has one (NVFP4). Source: Dettmers et al., arXiv 2208.07339, eq. 1 (absmax
// quantization), symmetric.
inline Scale ScaleFor(float absmax, Format format, float tensor_absmax) {
  const FormatInfo& info = Info(format);
  if (info.scale == ScaleType::kF32) {
    const float qmax = info.Largest();
    if (absmax < kSmallestAbsmax) return {0.0f, 0.0f};
    return {qmax / absmax, absmax / qmax};
  }
  if (absmax == 0.0f) return {0.0f, 0.0f};
  if (IsTwoLevel(info.scale)) {
    if (tensor_absmax < kSmallestAbsmax) return {0.0f, 0.0f};
    const TwoLevels levels = TwoLevelsOf(absmax, tensor_absmax, info.grid, info.scale);
    return {levels.Inverse(), levels.Scale()};
  }
  const int exponent = E8M0Exponent(absmax, info.grid, info.scale);
  return {PowerOfTwo(-exponent), PowerOfTwo(exponent)};
}

// For values that are the whole tensor, or a format without an f32 per tensor.
inline Scale ScaleFor(float absmax, Format format) { return ScaleFor(absmax, format, absmax); }

// The code of an integer format, the grid's value of another; times the scale it is the quantized value. std::nearbyint
// rounds half to even in the default rounding mode, which nothing here changes.
inline float Rounded(float value, float inv, Format format) {
  const FormatInfo& info = Info(format);
  if (!IsInteger(format)) return Nearest(value * inv, info.grid);
  const float code = std::nearbyint(value * inv);
  return std::clamp(code, static_cast<float>(info.min_code), static_cast<float>(info.max_code));
}

// Only for integer formats.
inline int CodeOf(float value, float inv, Format format) { return static_cast<int>(Rounded(value, inv, format)); }

}  // namespace tare
