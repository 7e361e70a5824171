// SPDX-License-Identifier: Apache-2.0
// Groups tokens by the length of their context, in ranges of powers of two: 1, 2 to 3, 4 to 7, ...
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tare {

// Tokens with contexts of first .. last, of which there are some.
struct ContextRange {
  int64_t first = 0, last = 0;
  std::vector<size_t> tokens;  // their places
};
std::vector<ContextRange> RangesOf(std::span<const int64_t> contexts);

}  // namespace tare
