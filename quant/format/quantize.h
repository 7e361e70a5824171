// SPDX-License-Identifier: Apache-2.0
// Quantizes values that share one scale: the scalar reference that fast quantizers match code for code (formula in
// round.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "quant/format/format.h"

namespace tare {

// Index of the first NaN or infinity.
std::optional<size_t> FirstNotFinite(std::span<const float> values);

// Largest magnitude; 0 for none. Values must be finite.
float AbsMax(std::span<const float> values);

// The magnitude that ScaleFor needs of a group: the largest, or the mean.
float MagnitudeOf(std::span<const float> values, Statistic statistic);

// Writes codes and returns the group's scale (value = code * scale). Throws Error for a value that is not finite,
// naming its index, and for f32 or an unsigned format whose values are below zero.
float QuantizeGroup(std::span<const float> values, Format format, std::span<int16_t> codes);

}  // namespace tare
