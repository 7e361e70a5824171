// SPDX-License-Identifier: Apache-2.0
// The two 16-bit floating-point types that checkpoints store, as bits. To f32: exact. From f32: the nearest, ties to
// even; or toward zero, where a computation is simulated that rounds so.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace tare {

inline float FloatFromBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// NaN stays NaN (quiet); overflow rounds to infinity as IEEE 754 does.
inline uint16_t Bf16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// By f32's bits, for the oldest instruction set has no instruction for it and compilers call: f32's exponents are 112
// more, and a product by a power of two is exact, of subnormal values too. Infinities and NaNs get f32's exponent.
inline float FloatFromF16(uint16_t half) {
  const uint32_t bits = half, sign = (bits & 0x8000u) << 16, special = (bits & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u;
  const float value = std::bit_cast<float>((bits & 0x7fffu) << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign | special);
}
inline uint16_t F16FromFloat(float value) { return std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }

// The largest f16 that is at most the value, which is no NaN, and the smallest that is at least it; beyond all finite
// ones infinity. Off by less than 2^-10 of the value, or 2^-24 where that is more.
inline uint16_t F16AtMost(float value) {
  const uint16_t nearest = F16FromFloat(value);
  if (FloatFromF16(nearest) <= value) return nearest;
  if ((nearest & 0x7fffu) == 0) return 0x8001u;  // just below 0
  return static_cast<uint16_t>(nearest + ((nearest & 0x8000u) != 0 ? 1 : -1));
}
inline uint16_t F16AtLeast(float value) { return F16AtMost(-value) ^ 0x8000u; }

enum class HalfRounding : uint8_t { kF16, kBf16, kF16TowardZero, kBf16TowardZero };

// The bits of one magnitude less are one less, of infinity those of the largest finite value.
inline float RoundedToHalf(float value, HalfRounding rounding) {
  const bool f16 = rounding == HalfRounding::kF16 || rounding == HalfRounding::kF16TowardZero;
  const auto wide = [f16](uint16_t bits) { return f16 ? FloatFromF16(bits) : FloatFromBf16(bits); };
  const uint16_t nearest = f16 ? F16FromFloat(value) : Bf16FromFloat(value);
  const bool too_far = rounding >= HalfRounding::kF16TowardZero && std::fabs(wide(nearest)) > std::fabs(value);
  return wide(static_cast<uint16_t>(nearest - (too_far ? 1 : 0)));
}

}  // namespace tare
