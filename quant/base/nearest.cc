// SPDX-License-Identifier: Apache-2.0
#include "quant/base/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tare {

constexpr size_t kLongest = 200;

size_t Distance(std::string_view a, std::string_view b) {
  a = a.substr(0, kLongest), b = b.substr(0, kLongest);
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({changed, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row.back();
}

const std::string* NearestOf(std::string_view word, const std::vector<std::string>& known) {
  const auto rank = [&](const std::string& name) {
    return std::pair(word.size() < 3 || !name.contains(word), Distance(word, name));
  };
  const auto nearest = std::ranges::min_element(known, {}, rank);
  if (nearest == known.end()) return nullptr;
  const auto [other, distance] = rank(*nearest);
  return other && distance > std::min(word.size(), kLongest) / 2 ? nullptr : &*nearest;
}

std::string NearestText(std::string_view name, const std::vector<std::string>& known) {
  std::vector<std::pair<size_t, std::string_view>> by_distance;
  for (const std::string& other : known) by_distance.emplace_back(Distance(name, other), other);
  const size_t count = std::min<size_t>(3, by_distance.size());
  std::ranges::partial_sort(by_distance, by_distance.begin() + static_cast<ptrdiff_t>(count));
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += (i == 0 ? (count == 1 ? "; the nearest is '" : "; the nearest are '") : ", '") +
            std::string(by_distance[i].second) + "'";
  return text;
}

}  // namespace tare
