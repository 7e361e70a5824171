// SPDX-License-Identifier: Apache-2.0
// Quantizes rows of activations to codes with a scale each, the unsigned operand of u8 x s8 products:
// quant/format/round.h's rule bit for bit, plus 128. The scale is dynamic, from the row's largest magnitude, or static,
// from a clip given.
#pragma once

#include <cstdint>
#include <optional>

#include "quant/format/format.h"

namespace tare {

// x [n], codes [padded], padded a multiple of 16 and at least n; after the last value stands 128, code 0. Returns the
// scale; NaN, and codes that mean nothing, where a value is not finite. No alignment is asked for. clip: the magnitude
// that becomes the largest code, nothing: the row's largest.
float ToTokenCodes(const float* x, int64_t n, Format format, std::optional<float> clip, uint8_t* codes, int64_t padded);

}  // namespace tare
