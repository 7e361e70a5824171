// SPDX-License-Identifier: Apache-2.0
// What decode_attention.h computes, by the double reference of attention over the cache read back as f32, one token at
// a time: it shares nothing with the kernel.
#pragma once

#include <vector>

#include "kernels/decode/decode_attention.h"

namespace tare {

// Of one output head.
struct DecodeTruth {
  std::vector<double> out;         // [T][slices * width of v]
  std::vector<double> magnitudes;  // [T]: ||P1 V|| + lambda ||P2 V||
};

// Row `number` of a head table; scale and window as in DecodeHeads. An empty cache gives zeros.
DecodeTruth ReferenceDecode(const OutputHead& head, int number, float scale, int64_t window, const DecodeSequence& s);

}  // namespace tare
