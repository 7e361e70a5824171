// SPDX-License-Identifier: Apache-2.0
// What public entries ask of their arguments. Each throws Error, which says where and what it got:
//
//   quantized linear, x: got a null pointer for 64 values
//   cache, key: got head 99, expected 0 to 3
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace tare {

// data points to so many values, 0 or more; where there are none it may be null.
void CheckPointer(std::string_view where, const void* data, int64_t values);

// least <= got <= most.
void CheckRange(std::string_view where, std::string_view what, int64_t got, int64_t least,
                int64_t most = std::numeric_limits<int64_t>::max());
inline void CheckEqual(std::string_view where, std::string_view what, int64_t got, int64_t expected) {
  CheckRange(where, what, got, expected, expected);
}

// A matrix [in, in] in so many values: in is at least 1.
void CheckSquare(std::string_view where, size_t values, int64_t in);

}  // namespace tare
