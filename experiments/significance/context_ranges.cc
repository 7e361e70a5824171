// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/context_ranges.h"

#include <algorithm>
#include <bit>
#include <map>

namespace tare {

std::vector<ContextRange> RangesOf(std::span<const int64_t> contexts) {
  std::map<int64_t, ContextRange> by_first;
  for (size_t i = 0; i < contexts.size(); ++i) {
    const auto first = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(contexts[i])));
    ContextRange& range = by_first[first];
    range.first = first;
    range.last = std::max<int64_t>(0, 2 * first - 1);
    range.tokens.push_back(i);
  }
  std::vector<ContextRange> all;
  for (auto& [first, range] : by_first) all.push_back(std::move(range));
  return all;
}

}  // namespace tare
