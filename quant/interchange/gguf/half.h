// SPDX-License-Identifier: Apache-2.0
// A scale or minimum of a GGUF block: two bytes of an F16, the lower one first.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "quant/base/float16.h"

namespace tare::gguf {

inline float HalfAt(const uint8_t* b) {
  uint16_t bits;
  std::memcpy(&bits, b, sizeof bits);
  return FloatFromF16(bits);
}

// 0 where the scale is 0, or too small to have an inverse.
inline float InverseOrZero(float scale) {
  const float inverse = 1.0f / scale;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

// Writes the nearest F16. False where it is beyond the largest one.
inline bool PutHalf(float value, uint8_t* b) {
  const uint16_t bits = F16FromFloat(value);
  std::memcpy(b, &bits, sizeof bits);
  return std::isfinite(FloatFromF16(bits));
}

}  // namespace tare::gguf
