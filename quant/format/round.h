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
// the code. If their scales are formats themselves, grid.h computes the scale, and inv is 1 / scale; then only a group
// of zeros has scale 0 (NVFP4: a tensor below 2^-100).
//
// Integers with another range of codes (CodeRange), all in f32:
//
//   +full   as above with qmax 2^(b-1) - 1/2: int4 has codes -8 .. 7, inv = 7.5 / absmax, scale = absmax / 7.5
//   +zero   low = min(smallest, 0), high = max(largest, 0)    qmax = 2^b - 1
//           inv = qmax / (high - low), scale = (high - low) / qmax
//           zero = round_half_even(-low * inv)                the code of 0, clamped to 0 .. qmax
//           code = clamp(round_half_even(x * inv) + zero)     value = (code - zero) * scale
//   +min    inv and scale likewise, of low = smallest and high = largest
//           code = clamp(round_half_even((x - low) * inv))    value = code * scale + low
//   +mean   of normal4 to normal1 and lists: low = mean - deviation, high = mean + deviation, which is the root of the
//           mean square about the mean; scale = (high - low) / 2, value = code * scale + (low + high) / 2
//
// A range below 2^-100 has scale 0 and codes 0: the values become 0 (+zero) or the smallest of them (+min), so a group
// of equal values is exact with +min. Sources: +full is what compressed-tensors and GPTQ call symmetric; +zero is
// GPTQ's Quantizer.find_params (IST-DASLab/gptq) and compressed-tensors' calculate_qparams, AWQ's without the 0 in the
// range; +min is ggml's Q4_1 with f32 scale and minimum, ties to even. They divide by scale: codes can differ at ties.
//
// Maps of attention have unsigned codes for values of both signs: a scale and the code of 0 (the zero point) from the
// group's two ends. Differences of maps lean to one side, where a symmetric code would waste steps on the other.
//
//   range = largest - smallest                  of the values and 0, so that 0 (a masked entry) has a code of its own
//   inv   = (qmax - 2^-10) / range
//   scale = range / (qmax - 2^-10)
//   zero  = -round_half_even(smallest * inv)
//   code  = round_half_even(x * inv) + zero
//   value = (code - zero) * scale
//
// Codes stay within 0 .. qmax without a clamp, as long as zero and codes round the same product; the smallest value
// gets 0. The ends' magnitudes in steps, a and b, sum to qmax - 2^-10 (f32 adds at most 5e-5): if both fractions are at
// least a half, their whole parts sum to at most qmax - 2; else at most one of them rounds up, from whole parts of at
// most qmax - 1. Source: the affine quantization of Jacob et al., arXiv 1712.05877, equation 1.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>

#include "quant/format/format.h"

namespace tare {

inline constexpr float kSmallestAbsmax = 0x1p-100f;

struct Scale {
  float inv;    // codes per unit; 0 for a group of zeros
  float scale;  // value of one code; 0 with inv 0
};

// absmax: finite, >= 0; `code` is what it becomes.
inline Scale ScaleTo(float code, float absmax) {
  if (absmax < kSmallestAbsmax) return {0.0f, 0.0f};
  return {code / absmax, absmax / code};
}

// absmax: finite, >= 0; for ternary the mean magnitude, for e8p and normal4 to normal1 the root of the mean square; for
// a block of IF4's sevenths negative, as is the inverse. tensor_absmax: the largest magnitude that shares the format's
// f32 per tensor (NVFP4). Source: Dettmers et al., arXiv 2208.07339, eq. 1 (absmax quantization), symmetric.
inline Scale ScaleFor(float absmax, const Format& format, float tensor_absmax) {
  const FormatInfo& info = Info(format);
  if (format.scale == ScaleType::kF32) return ScaleTo(info.Largest(), absmax);
  if (absmax == 0.0f) return {0.0f, 0.0f};
  if (IsTwoLevel(format.scale)) {
    if (tensor_absmax < kSmallestAbsmax) return {0.0f, 0.0f};
    const TwoLevels levels = TwoLevelsOf(std::fabs(absmax), tensor_absmax, info.grid, format.scale);
    return {std::copysign(levels.Inverse(), absmax), levels.Scale()};
  }
  const int exponent = E8M0Exponent(absmax, info.grid, format.scale);
  return {PowerOfTwo(-exponent), PowerOfTwo(exponent)};
}

// The scale for values that are the whole tensor, or for a format without an f32 per tensor.
inline Scale ScaleFor(float absmax, const Format& format) { return ScaleFor(absmax, format, absmax); }

// The code of an integer format, the grid's value of another; times the scale it is the quantized value. std::nearbyint
// rounds half to even in the default rounding mode, which nothing here changes.
inline float Rounded(float value, float inv, const Format& format) {
  const FormatInfo& info = Info(format);
  if (!IsInteger(format)) return NearestTimes(value, inv, info.grid);
  const float code = std::nearbyint(value * inv);
  return std::clamp(code, static_cast<float>(info.min_code), static_cast<float>(info.max_code));
}

// The code of a value, only for integer formats.
inline int CodeOf(float value, float inv, const Format& format) {
  return static_cast<int>(Rounded(value, inv, format));
}

// The ends that set the scale of a group's codes; without an offset `high` is ScaleFor's magnitude, `low` its negative.
struct Ends {
  float low, high;
};

// The scale of one group, in any format: value = (code - zero) * scale + origin.
struct GroupScale {
  Scale scale;
  float zero = 0;    // a whole code; of +zero
  float origin = 0;  // of +min and +mean
};

// ends: finite. An infinite range gives an infinite scale, which readers of scales refuse.
inline GroupScale GroupScaleFor(Ends ends, const Format& format, float tensor_absmax) {
  if (!HasOffset(format)) return {ScaleFor(ends.high, format, tensor_absmax)};
  if (format.range == CodeRange::kMean)
    return {.scale = ScaleFor(ends.high / 2 - ends.low / 2, format), .origin = ends.low / 2 + ends.high / 2};
  const bool has_zero = format.range == CodeRange::kZero;
  const float low = has_zero ? std::min(ends.low, 0.0f) : ends.low;
  const float range = (has_zero ? std::max(ends.high, 0.0f) : ends.high) - low, qmax = Info(format).Largest();
  GroupScale group{.scale = {0.0f, 0.0f}, .origin = has_zero ? 0.0f : low};
  if (range < kSmallestAbsmax) return group;
  group.scale = {qmax / range, range / qmax};
  if (has_zero) group.zero = std::clamp(std::nearbyint(-low * group.scale.inv), 0.0f, qmax);
  return group;
}

// Rounds as Rounded does, with the group's zero point or minimum.
inline float RoundedIn(float value, const GroupScale& group, const Format& format) {
  const FormatInfo& info = Info(format);
  if (!HasOffset(format) || !IsInteger(format)) return Rounded(value - group.origin, group.scale.inv, format);
  const float code = std::nearbyint((value - group.origin) * group.scale.inv) + group.zero;
  return std::clamp(code, static_cast<float>(info.min_code), static_cast<float>(info.max_code));
}

inline float ValueOf(float code, const GroupScale& group) {
  return (code - group.zero) * group.scale.scale + group.origin;
}

// Index of the first NaN or infinity.
std::optional<size_t> FirstNotFinite(std::span<const float> values);

// Largest magnitude; 0 for none. Values must be finite.
float AbsMax(std::span<const float> values);

// The magnitude that ScaleFor needs of a group: the largest, the mean, or the root of the mean square.
float MagnitudeOf(std::span<const float> values, Statistic statistic);

// The ends that GroupScaleFor needs of a group, at least one finite value.
Ends EndsOf(std::span<const float> values, const Format& format);
// The ends of all groups together, as a tensor's one scale takes them; one group or more, all with as many values.
Ends EndsOfAll(std::span<const Ends> groups, const Format& format);

inline constexpr float kZeroPointMargin = 0x1p-10f;

struct ZeroPointScale {
  Scale scale;  // 0, 0 for a range below 2^-100
  int zero;     // 0 .. qmax
};

// smallest, largest: of the group; both and largest - smallest finite. format: u8, u6 or u4.
inline ZeroPointScale ZeroPointScaleFor(float smallest, float largest, const Format& format) {
  const float low = std::min(smallest, 0.0f), range = std::max(largest, 0.0f) - low;
  const float steps = static_cast<float>(Info(format).max_code) - kZeroPointMargin;
  if (range < kSmallestAbsmax) return {{0.0f, 0.0f}, 0};
  const float inv = steps / range;
  return {{inv, range / steps}, -static_cast<int>(std::nearbyint(low * inv))};
}

}  // namespace tare
