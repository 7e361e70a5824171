// SPDX-License-Identifier: Apache-2.0
// How codes are stored, on disk and in caches: in groups of 64 values, the last group of a row padded with value 0.
//
//   8 bits   one byte per code, no groups
//   4 bits   32 bytes per group   byte i      = low(u[i]) | low(u[i + 32]) << 4                          i < 32
//   2 bits   16 bytes per group   byte i      = u[i] | u[i + 16] << 2 | u[i + 32] << 4 | u[i + 48] << 6  i < 16
//   3 bits   24 bytes per group   the low two bits as for 2 bits, then the high one: bit j of byte i of u[i + 8 j]
//   1 bit    8 bytes per group    bit j of byte i of u[i + 8 j]
//   6 bits   48 bytes per group   the low four bits as for 4 bits, then the high two as for 2 bits
//   e8p      two bytes per eight values, no groups: the code of grid.h, its low byte first
//
// with low the lower four bits of u. Planes, instead of four codes in three bytes, keep every part of a code inside a
// byte: unpacking is masks and shifts on any vector unit.
//
// u is the stored byte of a format's values, and of scales that are formats themselves.
//
//   int2 to int6, u4 u6   code + 2^(b-1) if signed, the code itself if unsigned
//   +zero, +min       the code itself, also of int8; +full as without it
//   int8 mxint8       two's complement; mxint8's value is code / 64
//   other grids       sign, exponent and mantissa, highest first, as OCP's standards draw them
//   lists             the index of the value
//   if4 of sevenths   sign and number of sevenths; the block's scale tells them from E2M1
//   E8M0              exponent + 127; 0 for a block of zeros, which has no scale
//   E4M3              as the grid E4M3; 0 for a block of zeros. The stored scale is relative to the f32 per tensor. Of
//                     IF4 its sign is the highest bit, set where the block's codes are of sevenths
//
// A value has one u, except zero, which has two if the sign is a bit. A u without a value (NaN, infinity, int8's -128)
// is never written, and is refused when read. E8P's values have no u of their own: eight have a code (grid.h).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/format/format.h"

namespace tare {

// For a value of the format; for other values the result is the code of a different value.
inline uint8_t StoredCode(float value, const FormatInfo& info) {
  const Grid& grid = info.grid;
  if (!grid.levels.empty())
    return static_cast<uint8_t>(std::ranges::lower_bound(grid.levels, value) - grid.levels.begin());
  if (info.max_code > 0 || grid.twos_complement) {
    const int code = static_cast<int>(info.max_code > 0 ? value : value / grid.Step());
    return static_cast<uint8_t>(info.bits == 8 || info.min_code == 0 ? code : code + (1 << (info.bits - 1)));
  }
  const float normal = std::fabs(value) / grid.smallest_normal;  // 1 to 2 in the first power of two with steps
  const uint32_t magnitude =
      normal < 1.0f ? static_cast<uint32_t>(std::fabs(value) / grid.Step())
                    : (std::bit_cast<uint32_t>(normal) - std::bit_cast<uint32_t>(0.5f)) >> (23 - grid.mantissa_bits);
  return static_cast<uint8_t>(magnitude | static_cast<uint32_t>(std::signbit(value)) << (info.bits - 1));
}

// The value of each u; NaN if none; from 16 on IF4's sevenths. Not for f32. A list's lasts as long as a format has it.
const std::array<float, 256>& StoredValues(const Format& format);

// For types stored in a byte. scale: 0, or ScaleFor's (round.h); of_tensor: the f32 per tensor, or 1. The product of
// two levels is divided again: both roundings are within 2^-23 of the E4M3 value, whose neighbours are 2^-4 away.
uint8_t StoredScale(float scale, ScaleType type, float of_tensor);
// The value of each byte of a scale, before the f32 per tensor and without a sign; NaN if it has none.
const std::array<float, 256>& ScaleValues(ScaleType type);

inline constexpr size_t kPackGroup = 64;

size_t PackedBytes(const Format& format, size_t count);

// Code is int8_t for signed integers, uint8_t for unsigned ones, float for the values of any format's grid (an
// integer's are its codes). Throws Error for a code outside the format, and unless packed.size() == PackedBytes(format,
// codes.size()); of e8p for values that are no points, and for a count that is no multiple of eight.
template <typename Code>
void Pack(const Format& format, std::span<const Code> codes, std::span<uint8_t> packed);

// The exact inverse. Throws Error for other sizes, and a u without a value (int4's -8, E4M3's NaN, a tail not 0).
template <typename Code>
void Unpack(const Format& format, std::span<const uint8_t> packed, std::span<Code> codes);

// A row of codes of four bits as others store them, two to a byte, the lower first. Value i, with g = i / columns, is
// (values[code] - zeros[g]) times scales[g]; difference and product are rounded to f32. The row's length and columns
// are multiples of 16.
struct NibbleRow {
  const std::byte* codes;
  const float* values;  // [16]
  const float *zeros, *scales;
  int64_t columns;
};

}  // namespace tare
