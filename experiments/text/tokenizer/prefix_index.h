// SPDX-License-Identifier: Apache-2.0
// Finds which of many texts are a prefix of another: the texts in byte order, narrowed byte by byte. A place costs as
// many steps as the longest text that matches there, each logarithmic in the number of texts.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tare::pipeline {

class PrefixIndex {
 public:
  PrefixIndex() = default;
  // Texts with what they stand for; empty ones are left out, and of equal ones the smallest number counts. The texts
  // are views: they must stay.
  explicit PrefixIndex(std::vector<std::pair<std::string_view, int32_t>> texts);

  // visit(length, number) for each text that `text` begins with, the shortest first.
  template <typename Visit>
  void ForEachPrefix(std::string_view text, Visit visit) const {
    if (text.empty()) return;
    const auto first = static_cast<unsigned char>(text[0]);
    auto low = sorted_.begin() + begins_[first], high = sorted_.begin() + begins_[first + 1];
    for (size_t length = 1; low != high; ++length) {
      if (low->first.size() == length) {  // the shortest of those that begin so is first
        visit(length, low->second);
        ++low;
      }
      if (length == text.size()) return;
      const auto byte = [length](const auto& entry) { return static_cast<unsigned char>(entry.first[length]); };
      const auto range =
          std::ranges::equal_range(low, high, static_cast<unsigned char>(text[length]), std::less<>(), byte);
      low = range.begin(), high = range.end();
    }
  }

 private:
  std::vector<std::pair<std::string_view, int32_t>> sorted_;
  std::array<std::ptrdiff_t, 257> begins_{};  // where those with each first byte begin
};

}  // namespace tare::pipeline
