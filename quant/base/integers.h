// SPDX-License-Identifier: Apache-2.0
// Division that rounds up, and rounding to the nearest integer by one addition: for |x| <= 2^22 the sum x + 1.5 * 2^23
// lies where f32 has steps of 1, so the addition rounds x, ties to even, and leaves the integer in the low bits:
//
//   bits(x + kToNearest) = kToNearestBits + round_half_even(x)
//
// Compilers make vectors of it on the oldest x86-64, which has no instruction for std::nearbyint. In an FMA, the
// product is rounded only with the sum. Highway's NearestInt takes two more instructions a vector to repair overflow.
#pragma once

#include <bit>
#include <cstdint>

namespace tare {

// n >= 0, step > 0.
constexpr int64_t CeilDiv(int64_t n, int64_t step) { return (n + step - 1) / step; }
constexpr int64_t RoundUp(int64_t n, int64_t step) { return CeilDiv(n, step) * step; }

inline constexpr float kToNearest = 12582912.0f;  // 1.5 * 2^23
inline constexpr uint32_t kToNearestBits = std::bit_cast<uint32_t>(kToNearest);

// Ties to even, for |x| <= 2^22; for larger ones a number near x.
inline float NearestInteger(float x) { return (x + kToNearest) - kToNearest; }

}  // namespace tare
