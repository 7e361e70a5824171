// SPDX-License-Identifier: Apache-2.0
// Quantizes values that share one scale: the scalar reference that fast quantizers match code for code (formula in
// round.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "quant/format/format.h"
#include "quant/format/round.h"

namespace tare {

// Index of the first NaN or infinity.
std::optional<size_t> FirstNotFinite(std::span<const float> values);

// Largest magnitude; 0 for none. Values must be finite.
float AbsMax(std::span<const float> values);

// The magnitude that ScaleFor needs of a group: the largest, the mean, or the root of the mean square.
float MagnitudeOf(std::span<const float> values, Statistic statistic);

// The ends that GroupScaleFor needs of a group, at least one finite value.
Ends EndsOf(std::span<const float> values, const Format& format);
// The ends of all groups together, as a tensor's one scale takes them; one group or more, all with as many values.
Ends EndsOfAll(std::span<const Ends> groups, const Format& format);

// Writes codes and returns the group's scale (value = code * scale). Throws Error for a value that is not finite,
// naming its index, and for f32 or an unsigned format whose values are below zero.
float QuantizeGroup(std::span<const float> values, const Format& format, std::span<int16_t> codes);

}  // namespace tare
