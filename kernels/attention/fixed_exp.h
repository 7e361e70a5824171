// SPDX-License-Identifier: Apache-2.0
// The exponential of the quantized kernels, in 16-bit integers: the same codes on every instruction set, 32 lanes a
// vector.
//
//   FixedExp2(u) = 2^(-u / 2048) in units of 2^-15, u in 0 .. 32767 (16 octaves; the last gives 0 or 1)
//
// The fraction, f = u mod 2048 as 16 bits, goes through a cubic whose products keep the high half, the octave is a
// shift. Coefficients: least-squares start, then a search over integers for the least largest error of the integer
// formula itself. Error: relative 2.3e-4 from the cubic over all 2048 fractions (tested), and less than 2^-15 absolute
// from the shift's truncation; rounding a logit to u adds at most ln 2 / 4096 = 1.7e-4 relative. A u8 code is a step
// of 3.9e-3. A table (vpermw, 32 entries) with a linear correction costs as many instructions and exists on AVX-512
// alone.
#pragma once

#include <cstdint>

namespace tare {

inline constexpr int kExpUnitsPerOctave = 2048;
inline constexpr int kExpLargest = 32767;  // of u, and of the result
inline constexpr uint16_t kExpC1 = 22663;
inline constexpr uint16_t kExpC2 = 7599;
inline constexpr uint16_t kExpC3 = 1323;

inline int FixedExp2(int u) {
  const auto high = [](uint32_t a, uint32_t b) { return a * b >> 16; };
  const uint32_t f = static_cast<uint32_t>(u) << 5 & 0xffff;
  const uint32_t p = kExpLargest - high(f, kExpC1 - high(f, kExpC2 - high(f, kExpC3)));
  return static_cast<int>(p >> (u >> 11));
}

}  // namespace tare
