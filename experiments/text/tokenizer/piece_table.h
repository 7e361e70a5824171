// SPDX-License-Identifier: Apache-2.0
// Pieces and their ids, in both directions, with the ids of pieces that stand for one byte each, and
// which pieces a text begins with.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <unicode/bytestrie.h>

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

// Bytes; bounds the steps at each place of a text. Pieces and added tokens in use have some tens.
constexpr size_t kLongestIndexed = 4096;

// Finds which of many texts are a prefix of another, by ICU's trie: a step per byte of the longest match.
class PrefixIndex {
 public:
  PrefixIndex() = default;
  // Texts with their ids. Empty texts are ignored. Throws Error, with `where`, for one that is longer than 4096 bytes.
  PrefixIndex(const std::map<std::string_view, int32_t>& texts, const std::string& where);

  // visit(length, id) for each text that `text` begins with, the shortest first.
  template <typename Visit>
  void ForEachPrefix(std::string_view text, Visit visit) const {
    if (trie_.empty()) return;
    icu::BytesTrie trie(trie_.data());
    for (size_t length = 1; length <= text.size(); ++length) {
      const UStringTrieResult result = trie.next(static_cast<unsigned char>(text[length - 1]));
      if (USTRINGTRIE_HAS_VALUE(result)) visit(length, trie.getValue());
      if (!USTRINGTRIE_HAS_NEXT(result)) return;
    }
  }

 private:
  std::string trie_;
};

}  // namespace tare::pipeline
