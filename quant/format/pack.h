// SPDX-License-Identifier: Apache-2.0
// How codes are stored, on disk and in caches: in groups of 64 values, the last group of a row padded with value 0.
//
//   8 bits   one byte per code, no groups
//   4 bits   32 bytes per group   byte i      = low(u[i]) | low(u[i + 32]) << 4                          i < 32
//   2 bits   16 bytes per group   byte i      = u[i] | u[i + 16] << 2 | u[i + 32] << 4 | u[i + 48] << 6  i < 16
//   3 bits   24 bytes per group   the low two bits as for 2 bits, then the high one: bit j of byte i of u[i + 8 j]
//   1 bit    8 bytes per group    bit j of byte i of u[i + 8 j]
//   6 bits   48 bytes per group   the low four bits as for 4 bits, then the high two as for 2 bits
//   e8p      two bytes per eight values, no groups: the code of lattice.h, its low byte first
//
// with u of stored_code.h and low its lower four bits. Planes, instead of four codes in three bytes, keep every part of
// a code inside a byte: unpacking is masks and shifts on any vector unit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/format/format.h"

namespace tare {

inline constexpr size_t kPackGroup = 64;

// Bytes of `count` packed codes.
size_t PackedBytes(Format format, size_t count);

// Code is int8_t for signed integers, uint8_t for unsigned ones, float for the values of any format's grid (an
// integer's are its codes). Throws Error for a code outside the format, and unless packed.size() == PackedBytes(format,
// codes.size()); of e8p for values that are no points, and for a count that is no multiple of eight.
template <typename Code>
void Pack(Format format, std::span<const Code> codes, std::span<uint8_t> packed);

// The exact inverse. Throws Error for sizes that do not fit, and for a stored u without a value (int4's -8, E4M3's NaN,
// or a tail that is not 0).
template <typename Code>
void Unpack(Format format, std::span<const uint8_t> packed, std::span<Code> codes);

}  // namespace tare
