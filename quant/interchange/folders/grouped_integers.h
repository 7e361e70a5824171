// SPDX-License-Identifier: Apache-2.0
// Which integers stand for the parts of a GroupedMatrix, if any do. With `step` 1, or 1/2 for the values of E2M1, and
// `raised` what makes the lowest code 0 where groups have zero points of their own:
//
//   code = value / step + raised       scale = stored scale * step
//   zero = zero value + raised         minimum = added
//
// All of it is exact: values, zero points and their differences are small integers, and a scale is halved only where no
// bit is lost. Where a g_idx deals columns out to groups, codes stand in the order of their groups. There are none
// where a value is no multiple of a step (FP8, NF4), where groups have different numbers of columns (a short last
// group), and where codes would take more than 8 bits.
#pragma once

#include <optional>

#include "quant/interchange/folders/grouped_matrix.h"

namespace tare {

// Reads all zero points, and all scales that are to be halved.
std::optional<GroupedIntegers> IntegersIn(const GroupedParts& parts);

}  // namespace tare
