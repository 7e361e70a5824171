// SPDX-License-Identifier: Apache-2.0
// Finds which of many texts are a prefix of another: the texts are sorted by bytes and narrowed byte by byte. The cost
// is one step per byte of the longest match, each logarithmic in the number of texts.
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
  // Texts with their numbers. Empty texts are ignored, and of equal ones the smallest number counts. The texts are
  // views and must outlive this.
  explicit PrefixIndex(std::vector<std::pair<std::string_view, int32_t>> texts);

  // visit(length, number) for each text that `text` begins with, the shortest first.
  template <typename Visit>
  void ForEachPrefix(std::string_view text, Visit visit) const {
    if (text.empty()) return;
    const auto first = static_cast<unsigned char>(text[0]);
    auto low = sorted_.begin() + begins_[first], high = sorted_.begin() + begins_[first + 1];
    for (size_t length = 1; low != high; ++length) {
      if (low->first.size() == length) {  // the shortest of the matching texts is first
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
  std::array<std::ptrdiff_t, 257> begins_{};  // index of the first text with each first byte
};

}  // namespace tare::pipeline
