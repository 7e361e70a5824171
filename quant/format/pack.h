// SPDX-License-Identifier: Apache-2.0
// How codes are stored, on disk and in caches. Groups of 64 values; the last group of a row is filled up with code 0.
//
//   8 bits   one byte per code, no groups
//   4 bits   32 bytes per group   byte i      = u[i] | u[i + 32] << 4                                    i < 32
//   6 bits   48 bytes per group   byte i      = low(u[i]) | low(u[i + 32]) << 4                          i < 32
//                                 byte 32 + i = high(u[i])           | high(u[i + 16]) << 2
//                                             | high(u[i + 32]) << 4 | high(u[i + 48]) << 6              i < 16
//
// with u = code + 8 (int4), code + 32 (int6) or the code itself (u4, u6), low its lower four bits, high the other two.
// Two planes instead of three bytes for four codes: no code crosses a byte, so unpacking is masks and shifts on any
// vector unit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/format/format.h"

namespace tare {

inline constexpr size_t kPackGroup = 64;

// Bytes that `count` codes take.
size_t PackedBytes(Format format, size_t count);

// Code is int8_t for signed formats, uint8_t for unsigned ones. Throws Error for a code outside the format, and where
// the sizes do not agree: packed.size() == PackedBytes(format, codes.size()).
template <typename Code>
void Pack(Format format, std::span<const Code> codes, std::span<uint8_t> packed);

// The inverse, exactly. Throws Error for sizes that do not agree, or a stored value that no code has (-8, -32, -128, or
// a tail that is not 0).
template <typename Code>
void Unpack(Format format, std::span<const uint8_t> packed, std::span<Code> codes);

}  // namespace tare
