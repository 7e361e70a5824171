// SPDX-License-Identifier: Apache-2.0
// JSON integers, checked against their target type. nlohmann's own conversion silently turns 2^32 + 1 into 1, 1.5 into
// 1 and -1 into the largest unsigned number.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "quant/base/error.h"
#include "quant/file/json.h"

namespace tare {

// Throws Error if json is not an integer, or one that T cannot hold; `where` starts the message.
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
