// SPDX-License-Identifier: Apache-2.0
// What decode_attention.h computes, by the double reference of attention over the cache read back as f32, one token at
// a time: it shares nothing with the kernel.
#pragma once

#include <vector>

#include "kernels/decode/decode_attention.h"

namespace tare {

// Decoding beside codes differs from the truth by less than kDecodeBound (1 + the row's largest |logit|) of ||P1 V|| +
// lambda ||P2 V||. A query is off by half a 16256th of its largest value, some 3 standard deviations, which moves a
// logit of standard normal queries and keys by 5e-5 and a row by 1e-4; a difference is off by as much.
inline constexpr double kDecodeBound = 5e-4;

// Of one output head.
struct DecodeTruth {
  std::vector<double> out;         // [T][slices * width of v]
  std::vector<double> magnitudes;  // [T]: ||P1 V|| + lambda ||P2 V||
  std::vector<double> bounds;      // [T] of ||error|| beside codes
};

// Row `number` of a head table; scale and window as in DecodeHeads. An empty cache gives zeros.
DecodeTruth ReferenceDecode(const OutputHead& head, int number, float scale, int64_t window, const DecodeSequence& s);

}  // namespace tare
