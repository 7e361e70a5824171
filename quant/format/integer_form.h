// SPDX-License-Identifier: Apache-2.0
// Integer codes that stand for the values of a matrix that another tool quantized, so that integer kernels take it
// (quant/format/quantized_matrix.h). They are the same numbers, value for value; only a zero may have another sign.
// Scales may be negative: GGUF's Q4_0, AutoRound and MLX have such ones.
#pragma once

#include <cstdint>
#include <optional>

#include "quant/format/format.h"

namespace tare {

struct IntegerForm {
  Format format = Format::kInt8;  // int8, int6 or int4, of any range of codes
  int64_t group = 0;              // neighbouring inputs that share a scale
  friend bool operator==(const IntegerForm&, const IntegerForm&) = default;
};

// Where one row of such a matrix goes.
struct IntegerRow {
  float* codes;    // [in]
  float* scales;   // [groups]
  uint8_t* zeros;  // [groups], of +zero; else null
  float* minima;   // [groups], of +min; else null
};

// The narrowest format whose codes are these and all between; empty: more than 8 bits.
std::optional<Format> SignedFormat(float least, float most);
// The same of codes from 0, with a zero point or a minimum.
std::optional<Format> RangedFormat(float most, CodeRange range);

}  // namespace tare
