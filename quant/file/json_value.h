// SPDX-License-Identifier: Apache-2.0
// The type of results: JSON whose members keep their order, its text, and integers checked against their target type.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "quant/base/error.h"
#include "quant/file/json.h"

namespace tare {

using Json = nlohmann::ordered_json;

// Null for NaN and infinities, which JSON cannot write.
inline Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

// Names of files and the contents of damaged files may not be UTF-8: such bytes become U+FFFD, where nlohmann's own
// dump throws. indent: spaces per level; -1: on one line.
inline std::string JsonText(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// A string without its quotes, anything else as JSON.
inline std::string PlainText(const Json& json) { return json.is_string() ? json.get<std::string>() : json.dump(); }

// Throws Error if json is not an integer, or one that T cannot hold; `where` starts the message. nlohmann's own
// conversion silently turns 2^32 + 1 into 1, 1.5 into 1 and -1 into the largest unsigned number.
template <std::integral T>
T IntegerOf(const nlohmann::json& json, std::string_view where) {
  const bool fits = json.is_number_unsigned() ? std::in_range<T>(json.get<uint64_t>())
                                              : json.is_number_integer() && std::in_range<T>(json.get<int64_t>());
  if (!fits)
    Fail("{}: got {}, expected an integer from {} to {}", where, json.dump(), std::numeric_limits<T>::min(),
         std::numeric_limits<T>::max());
  return json.get<T>();
}

}  // namespace tare
