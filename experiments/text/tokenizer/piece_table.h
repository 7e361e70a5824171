// SPDX-License-Identifier: Apache-2.0
// Pieces and their ids, in both directions, with the ids of pieces that stand for one byte each, and
// which pieces a text begins with.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tare::pipeline {

// Far more than any vocabulary in use: a larger id is damage and would take memory.
constexpr int64_t kLargestId = 100'000'000;

// Hashes strings and views of them alike.
struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};

class PieceTable {
 public:
  // Throws Error for an id out of range, or used by two pieces.
  void Add(const std::string& piece, int64_t id, const std::string& where);

  std::optional<int32_t> Find(std::string_view piece) const;
  const std::string& Piece(int32_t id) const;
  int32_t ids() const { return static_cast<int32_t>(pieces_.size()); }

  // Ids of <0x00> to <0xFF>; -1 for a missing one.
  std::array<int32_t, 256> Bytes() const;

 private:
  std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>> ids_;
  std::vector<std::string> pieces_;  // by id
};

// Finds which of many texts are a prefix of another: the texts are sorted by bytes and narrowed byte by byte. The cost
// is one step per byte of the longest match, each logarithmic in the number of texts.
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
