// SPDX-License-Identifier: Apache-2.0
// Rounding to the nearest integer by one addition: for |x| <= 2^22 the sum x + 1.5 * 2^23 lies where f32 has steps of
// 1, so the addition rounds x, ties to even, and leaves the integer in the low bits of the sum:
//
//   bits(x + kToNearest) = kToNearestBits + round_half_even(x)
//
// In an FMA, the product is rounded only once, with the sum. Highway's NearestInt takes two more instructions per
// vector to repair overflow.
#pragma once

#include <bit>
#include <cstdint>

namespace tare {

inline constexpr float kToNearest = 12582912.0f;  // 1.5 * 2^23
inline constexpr uint32_t kToNearestBits = std::bit_cast<uint32_t>(kToNearest);

}  // namespace tare
