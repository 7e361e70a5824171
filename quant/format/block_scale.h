// SPDX-License-Identifier: Apache-2.0
// Scales that are formats themselves.
//
// E8M0 is a power of two from 2^-127 to 2^127. For a block with largest magnitude a, a grid with largest value L, and p
// = floor(log2 L) (E2M1: L 6, p 2):
//
//   floor   2^(floor(log2 a) - p)       OCP's rule: values between L and 2^(p + 1) are clipped
//   ceil    2^(ceil(log2 a) - p)        clips nothing
//   rceil   2^ceil(log2(a / L))         the smallest that clips nothing
//   even    as floor, with a first rounded to as many bits as the grid's values have, half up
//
// For E2M1 and a = 7: floor 1 (7 becomes 6), ceil 2 (8), rceil 2, even 2 (7 has two bits as 8); a = 6.5: 1, 2, 2, 1.
//
// E4M3 with an f32 per tensor (NVFP4): t = T / (448 L) for the tensor's largest magnitude T; the block's scale is a / L
// / t, rounded to the nearest E4M3 value, at least 2^-9; scale = block * t. With 256 instead of 448, the largest block
// scale, 256, times 6 / 4 is still an E4M3 value. "Four over six" takes that scale, whose largest code 4 stands for a,
// for the blocks that lose less by it (FourOrSix, quant/algorithms/round_to_nearest.h). Sources: OCP MX 1.0, 6.3; the
// rules' names are torchao's; Alvarez et al., Introducing NVFP4, NVIDIA 2025; Cook et al., arXiv 2512.02010, and
// mit-han-lab/fouroversix dadfad6, reference.py.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "quant/format/grid.h"

namespace tare {

enum class ScaleType : uint8_t {
  kF32,
  kE8M0Floor,
  kE8M0Ceil,
  kE8M0Rceil,
  kE8M0Even,
  kTwoLevel,
  kTwoLevel256,
  kFourOverSix
};

constexpr bool IsTwoLevel(ScaleType type) { return type >= ScaleType::kTwoLevel; }

// absmax > 0, finite. The result is -127 to 127.
inline int E8M0Exponent(float absmax, const Grid& grid, ScaleType rule) {
  constexpr uint32_t kMantissa = 0x7fffff;
  const bool subnormal = absmax < 0x1p-126f;
  const auto bits = std::bit_cast<uint32_t>(subnormal ? absmax * 0x1p24f : absmax);
  const auto largest = std::bit_cast<uint32_t>(grid.largest);
  const uint32_t part = bits & kMantissa;  // the position between two powers of two
  bool up = false;
  if (rule == ScaleType::kE8M0Ceil) up = part > 0;
  if (rule == ScaleType::kE8M0Rceil) up = part > (largest & kMantissa);
  if (rule == ScaleType::kE8M0Even) up = part > kMantissa - (1u << (22 - grid.mantissa_bits));
  const int power = static_cast<int>(bits >> 23) - static_cast<int>(largest >> 23) - (subnormal ? 24 : 0);
  return std::clamp(power + (up ? 1 : 0), -127, 127);
}

// 2^exponent, for exponents from -127 to 127.
inline float PowerOfTwo(int exponent) {
  return exponent < -126 ? 0x1p-127f : std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

// t, the scale per tensor of two-level scales.
inline float TensorScale(float tensor_absmax, const Grid& grid, ScaleType type) {
  return tensor_absmax / ((type == ScaleType::kTwoLevel ? kE4M3.largest : 256.0f) * grid.largest);
}

// Scales of a block and of its tensor.
struct TwoLevels {
  float of_block, of_tensor;

  float Scale() const { return of_block * of_tensor; }
  float Inverse() const { return 1.0f / of_tensor / of_block; }  // in torchao's order, for equal codes and ties
};

// Both magnitudes > 0.
inline TwoLevels TwoLevelsOf(float absmax, float tensor_absmax, const Grid& grid, ScaleType type) {
  const float of_tensor = TensorScale(tensor_absmax, grid, type);
  return {std::max(Nearest(absmax / grid.largest / of_tensor, kE4M3), 0x1p-9f), of_tensor};
}

}  // namespace tare
