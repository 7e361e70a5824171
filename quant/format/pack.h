// SPDX-License-Identifier: Apache-2.0
// How codes are stored, on disk and in caches. Groups of 64 values; the last group of a row is filled up with value 0.
//
//   8 bits   one byte per code, no groups
//   4 bits   32 bytes per group   byte i      = low(u[i]) | low(u[i + 32]) << 4                          i < 32
//   2 bits   16 bytes per group   byte i      = u[i] | u[i + 16] << 2 | u[i + 32] << 4 | u[i + 48] << 6  i < 16
//   6 bits   48 bytes per group   the low four bits as of 4 bits, then the high two as of 2 bits
//
// with u of stored_code.h and low its lower four bits. Two planes instead of three bytes for four codes: no code
// crosses a byte, so unpacking is masks and shifts on any vector unit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/format/format.h"

namespace tare {

inline constexpr size_t kPackGroup = 64;

// Bytes that `count` codes take.
size_t PackedBytes(Format format, size_t count);

// Code is int8_t for signed integers, uint8_t for unsigned ones, float for the values of any format's grid (of an
// integer's: its codes). Throws Error for a code outside the format, and where the sizes do not agree:
// packed.size() == PackedBytes(format, codes.size()).
template <typename Code>
void Pack(Format format, std::span<const Code> codes, std::span<uint8_t> packed);

// The inverse, exactly. Throws Error for sizes that do not agree, or a stored u that no value has (int4's -8, E4M3's
// NaN, or a tail that is not 0).
template <typename Code>
void Unpack(Format format, std::span<const uint8_t> packed, std::span<Code> codes);

}  // namespace tare
