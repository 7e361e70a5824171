// SPDX-License-Identifier: Apache-2.0
// The two exponentials of the quantized kernels, with the same bits on every instruction set.
//
// FixedExp2Of, of every key, in 16-bit integers, 32 lanes a vector:
//
//   FixedExp2(u) = 2^(-u / 2048) in units of 2^-15, u in 0 .. 32767 (16 octaves; the last gives 0 or 1)
//
// The fraction, f = u mod 2048 as 16 bits, goes through a cubic whose products keep the high half, the octave is a
// shift. Coefficients: least-squares start, then a search over integers for the least largest error of the integer
// formula itself. Error: relative 2.3e-4 from the cubic over all 2048 fractions (tested), and less than 2^-15 absolute
// from the shift's truncation; rounding a logit to u adds at most ln 2 / 4096 = 1.7e-4 relative. A u8 code is a step of
// 3.9e-3. A table (vpermw, 32 entries) with a linear correction costs as many instructions and exists on AVX-512 alone.
//
// RowExp2, 2^x in f32, once per row and tile: how far a tile's maximum is below the row's. x <= 0, or -inf, or NaN (of
// -inf minus -inf); below -126 and for NaN it is 0. Products and sums one by one, no FMA. Error below 4e-7 relative:
// Taylor's degree 6 on |f| <= 1/2 leaves (ln 2 / 2)^7 / 7! = 1.2e-7, and seven roundings.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tare {

inline constexpr int kExpUnitsPerOctave = 2048;
inline constexpr int kExpLargest = 32767;  // of u, and of the result
inline constexpr uint16_t kExpC1 = 22663;
inline constexpr uint16_t kExpC2 = 7599;
inline constexpr uint16_t kExpC3 = 1323;

inline constexpr float kLog2E = 1.44269504f;  // octaves per nat

// Soft cap of a row's z, logits being z * factor units (score_stage.h). Finite: tanh(z / cap) cap is never 0 times inf.
inline float CapOfRow(float softcap, float factor) {
  return std::min(softcap * (kLog2E * kExpUnitsPerOctave) / factor, std::numeric_limits<float>::max());
}

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
