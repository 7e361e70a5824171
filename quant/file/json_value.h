// SPDX-License-Identifier: Apache-2.0
// The type of results: JSON whose members keep their order, and its text.
#pragma once

#include <cmath>
#include <string>

#include "quant/file/json.h"

namespace tare {

using Json = nlohmann::ordered_json;

// Null for NaN and infinities, which JSON cannot write.
inline Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

// Names of files and the contents of damaged files may not be UTF-8: such bytes become U+FFFD, where nlohmann's own
// dump throws. indent: spaces per level; -1: on one line.
std::string JsonText(const Json& json, int indent = -1);

}  // namespace tare
