// SPDX-License-Identifier: Apache-2.0
// 2^x in f32, used once per row and tile: how far a tile's maximum is below the row's. x <= 0, or -inf, or NaN (of -inf
// minus -inf); below -126 and for NaN it is 0. Products and sums one by one, no FMA, so that every instruction set gets
// the same bits. Error below 4e-7 relative: Taylor's degree 6 on |f| <= 1/2 leaves (ln 2 / 2)^7 / 7! = 1.2e-7, and
// seven roundings.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace tare {

inline constexpr float kLog2E = 1.44269504f;  // octaves per nat

// ln(2)^n / n!, highest first.
inline constexpr std::array<float, 7> kExp2Coefficients = {1.540353e-4f,  1.3333558e-3f, 9.618129e-3f, 5.550411e-2f,
                                                           2.4022651e-1f, 6.9314718e-1f, 1.0f};

inline float RowExp2(float x) {
  if (!(x >= -126.0f)) return 0.0f;
  const float n = std::nearbyint(x);
  const float f = x - n;
  float p = kExp2Coefficients[0];
  for (size_t i = 1; i < kExp2Coefficients.size(); ++i) {
    p = p * f;
    p = p + kExp2Coefficients[i];
  }
  return std::bit_cast<float>(std::bit_cast<int32_t>(p) + (static_cast<int32_t>(n) << 23));
}

}  // namespace tare
