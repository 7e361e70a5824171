// SPDX-License-Identifier: Apache-2.0
// The type of results: JSON whose members keep their order.
#pragma once

#include <cmath>

#include "quant/file/json.h"

namespace tare {

using Json = nlohmann::ordered_json;

// Null for NaN and infinities, for which JSON has no word.
inline Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

}  // namespace tare
