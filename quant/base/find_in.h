// SPDX-License-Identifier: Apache-2.0
// Look-ups that give a pointer, which is null where nothing is found.
#pragma once

#include <algorithm>

namespace tare {

template <typename Map, typename Key>
auto* FindIn(Map& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

// The first element of a list with this value `of` it.
template <typename List, typename Value, typename Of>
constexpr auto* FindIn(List&& list, const Value& value, Of of) {
  const auto found = std::ranges::find(list, value, of);
  return found == std::ranges::end(list) ? nullptr : &*found;
}

// The first element of a list that is so.
template <typename List, typename Is>
auto* FindWhere(List&& list, Is is) {
  return FindIn(list, true, is);
}

}  // namespace tare
