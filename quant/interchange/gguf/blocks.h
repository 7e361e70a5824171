// SPDX-License-Identifier: Apache-2.0
// What GGUF's quantized blocks hold (ggml-common.h) and the values that they stand for: bit for bit those of gguf-py
// and of libggml's dequantization. d, m and dmin are f16 and are taken to f32 first; all is little-endian. In blocks of
// 32, a byte holds value i in its low half and value i + 16 in its high half.
//
//   Q8_0    d, 32 int8                           d q
//   Q4_0    d, 16 bytes                          d (q - 8)
//   Q4_1    d, m, 16 bytes                       d q + m
//   Q5_0    d, 32 fifth bits, 16 bytes           d (q - 16)
//   Q5_1    d, m, 32 fifth bits, 16 bytes        d q + m
//   IQ4_NL  d, 16 bytes                          d t[q], t a table of 16 integers
//   MXFP4   e, 16 bytes                          2^(e - 128) t[q], t the doubled values of E2M1
//   Q2_K    16 scales, 64 bytes, d, dmin         (d s) q - dmin m, a scale s and a minimum m of 4 bits per 16 values
//   Q3_K    32 + 64 bytes, 12 bytes, d           (d s) q, q from -4 to 3, s of 6 bits less 32 per 16 values
//   Q4_K    d, dmin, 12 bytes, 128 bytes         (d s) q - dmin m, s and m of 6 bits per 32 values
//   Q5_K    d, dmin, 12, 32 + 128 bytes          the same with 5 bits
//   Q6_K    128 + 64 bytes, 16 int8, d           (d s) (q - 32), s of 8 bits per 16 values
//
// Each is an integer times a scale, and a minimum perhaps, for 16 or 32 neighbours: d s and dmin m are exact in f32,
// and so are all codes in int8, int6 or int4 (IntegersOfType).
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/base/float16.h"
#include "quant/format/quantized_matrix.h"
#include "quant/interchange/gguf/container.h"

namespace tare::gguf {

// A scale or minimum of a GGUF block: two bytes of an F16, the lower one first.
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

// MXFP4's numbers: the doubled values of E2M1's codes, and 2^(e - 128), half of E8M0's value, subnormal for e < 2.
inline constexpr std::array<int8_t, 16> kTwiceE2M1{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr float HalfOfE8M0(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? uint32_t{0x00200000} << e : static_cast<uint32_t>(e - 1) << 23);
}

// A block of a quantized type: value i of group g is codes[i] * scales[g] (+ minima[g], where the format is +min).
struct BlockIntegers {
  std::array<int8_t, 256> codes;
  std::array<float, 16> scales, minima;
};
// The form of a quantized type's codes.
IntegerForm IntegersOfType(TensorType type);
void ReadIntegers(TensorType type, const std::byte* block, BlockIntegers& to);

// y holds `blocks` blocks of values; of F32, F16 and BF16 a block is one value.
void DequantizeBlocks(TensorType type, const std::byte* data, int64_t blocks, float* y);

}  // namespace tare::gguf
