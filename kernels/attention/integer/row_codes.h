// SPDX-License-Identifier: Apache-2.0
// Quantizes four rows of f32 at once to 8-bit codes with a scale each, for Q and K per token. The rule is that of
// quant/format/round.h, bit for bit.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/attention/heads.h"
#include "quant/format/format.h"

namespace tare {

inline constexpr int kRowsAtOnce = 4;

struct RowCodes {
  // code + offset, offset itself after the last up to a multiple of 64
  alignas(64) uint8_t codes[kRowsAtOnce][kLargestWidth];
  // Of the codes, without offset.
  alignas(16) int32_t sums[kRowsAtOnce];
  // NaN or infinite where a value is not finite; the row's codes mean nothing then.
  alignas(16) float scales[kRowsAtOnce];
};

enum class CodeOffset { kNone = 0, kUnsigned = 128 };  // signed bytes, or code + 128

// rows[i] has `width` values; minus [width] is subtracted first, or null.
void ToRowCodes(const std::array<const float*, kRowsAtOnce>& rows, int width, const float* minus, Format format,
                CodeOffset offset, RowCodes& out);

// The codes of 4 keys into a tile of packing.h, at keys first .. first + 3 (first a multiple of 4): groups of 4
// channels, [group][64][4].
void InterleaveRows(const RowCodes& rows, int groups, int first, int8_t* tile);

}  // namespace tare
