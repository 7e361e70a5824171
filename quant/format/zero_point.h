// SPDX-License-Identifier: Apache-2.0
// Unsigned codes for values of both signs: a scale and the code of 0 (the zero point) from the group's two ends.
// Differences of maps lean to one side, where a symmetric code would waste steps on the other.
//
//   range = largest - smallest                  of the values and 0, so that 0 (a masked entry) has a code of its own
//   inv   = (qmax - 2^-10) / range
//   scale = range / (qmax - 2^-10)
//   zero  = -round_half_even(smallest * inv)
//   code  = round_half_even(x * inv) + zero
//   value = (code - zero) * scale
// Codes stay within 0 .. qmax without a clamp, as long as zero and codes round the same product; the smallest value
// gets 0. The ends' magnitudes in steps, a and b, sum to qmax - 2^-10 (f32 adds at most 5e-5): if both fractions are at
// least a half, their whole parts sum to at most qmax - 2; else at most one of them rounds up, from whole parts of at
// most qmax - 1.
// Source: the affine quantization of Jacob et al., arXiv 1712.05877, equation 1.
#pragma once

#include <algorithm>
#include <cmath>

#include "quant/format/format.h"
#include "quant/format/round.h"

namespace tare {

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
