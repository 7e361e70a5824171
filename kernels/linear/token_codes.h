// SPDX-License-Identifier: Apache-2.0
// Quantizes rows of activations to codes, one scale per row, as the unsigned operand of u8 x s8 products: exactly the
// codes of quant/format/round.h, plus 128. The scale is dynamic, from the row's largest magnitude, or static, from a
// given clip.
#pragma once

#include <cstdint>
#include <optional>

#include "quant/format/format.h"

namespace tare {

// x [n], codes [padded], with padded a multiple of 16 and at least n; codes after the last value are 128 (code 0).
// Returns the scale; if a value is not finite, NaN and undefined codes. Needs no alignment. clip: the magnitude that
// becomes the largest code; empty: the row's largest.
float ToTokenCodes(const float* x, int64_t n, Format format, std::optional<float> clip, uint8_t* codes, int64_t padded);

}  // namespace tare
