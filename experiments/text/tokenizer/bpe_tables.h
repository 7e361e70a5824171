// SPDX-License-Identifier: Apache-2.0
// What byte-pair encoding looks up: merges, neighbours within pieces, and words that it has met.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace tare::pipeline {

struct Merge {
  int32_t rank, id;  // rank: smaller if learnt earlier; id: of the joined piece
};

// The merges by their two pieces: open addressing with linear probing, at most half full, so that a pair that does not
// merge, as most do not, costs one line of memory.
class MergeTable {
 public:
  MergeTable() = default;
  // Has room for up to `merges` merges.
  explicit MergeTable(size_t merges) : slots_(std::bit_ceil(2 * merges + 1)) {}

  // A later merge of the same pair replaces the earlier. left >= 0, right >= 0.
  void Set(int32_t left, int32_t right, Merge merge) {
    Slot& slot = slots_[PlaceOf(left, right)];
    slot = {left, right, merge};
  }
  // nullptr: the pair does not merge.
  const Merge* Find(int32_t left, int32_t right) const {
    const Slot& slot = slots_[PlaceOf(left, right)];
    return slot.left < 0 ? nullptr : &slot.merge;
  }

 private:
  struct Slot {
    int32_t left = -1, right = -1;  // -1: free
    Merge merge{};
  };

  // The place of the pair, or the free place where it would be.
  size_t PlaceOf(int32_t left, int32_t right) const {
    const uint64_t key = static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    const uint64_t mixed = (key ^ key >> 29) * 0x9e3779b97f4a7c15;  // Fibonacci hashing (Knuth, volume 3, 6.4)
    const size_t mask = slots_.size() - 1;
    size_t at = static_cast<size_t>(mixed >> 32) & mask;
    while (slots_[at].left >= 0 && (slots_[at].left != left || slots_[at].right != right)) at = (at + 1) & mask;
    return at;
  }

  std::vector<Slot> slots_ = std::vector<Slot>(1);
};

// The pairs of characters (or bytes) that stand side by side in some piece of a vocabulary; no others ever merge.
class Neighbours {
 public:
  void Add(char32_t first, char32_t second) {
    if (IsSmall(first, second)) {
      small_.set(first << 8 | second);
    } else {
      others_.insert(Key(first, second));
    }
  }
  bool Has(char32_t first, char32_t second) const {
    return IsSmall(first, second) ? small_.test(first << 8 | second) : others_.contains(Key(first, second));
  }

 private:
  static bool IsSmall(char32_t first, char32_t second) { return first < 256 && second < 256; }
  static uint64_t Key(char32_t first, char32_t second) { return static_cast<uint64_t>(first) << 32 | second; }

  std::bitset<65536> small_;  // most of a vocabulary's pairs
  std::unordered_set<uint64_t> others_;
};

// The ids of the last short words, because words of a text repeat. A word has one place, where the last one stays: 512
// KiB that fit a processor's second cache, whatever the text.
class WordCache {
 public:
  // Appends the word's ids; false where it is not kept.
  bool Find(std::string_view word, std::vector<int32_t>* ids) const {
    if (word.empty() || word.size() > kBytes) return false;
    const Text text = TextOf(word);
    const Slot& slot = slots_[PlaceOf(text)];
    if (slot.text != text) return false;
    ids->insert(ids->end(), slot.ids.begin(), slot.ids.begin() + slot.count);
    return true;
  }

  // Does not keep words that are empty, longer than kBytes or of more than kIds ids.
  void Keep(std::string_view word, std::span<const int32_t> ids) {
    if (word.empty() || word.size() > kBytes || ids.size() > kIds) return;
    const Text text = TextOf(word);
    Slot& slot = slots_[PlaceOf(text)];
    slot.text = text;
    slot.count = static_cast<int32_t>(ids.size());
    std::ranges::copy(ids, slot.ids.begin());
  }

 private:
  static constexpr size_t kBytes = 15, kIds = 3;  // a slot of half a line of 64 bytes
  static constexpr int kSlotBits = 14;

  using Text = std::array<uint64_t, 2>;  // the bytes, zeros, and in the last byte how many; all zeros: no word
  struct Slot {
    Text text{};
    int32_t count = 0;
    std::array<int32_t, kIds> ids{};
  };

  static Text TextOf(std::string_view word) {
    std::array<char, 16> bytes{};
    std::memcpy(bytes.data(), word.data(), word.size());
    bytes.back() = static_cast<char>(word.size());
    Text text;
    std::memcpy(text.data(), bytes.data(), bytes.size());
    return text;
  }
  // Odd multipliers spread every bit of the words into the high ones (Fibonacci hashing, Knuth, volume 3, 6.4).
  static size_t PlaceOf(const Text& text) {
    const uint64_t mixed = (text[0] * 0x9e3779b97f4a7c15 ^ text[1]) * 0xd6e8feb86659fd93;
    return static_cast<size_t>((mixed ^ mixed >> 32) * 0x9e3779b97f4a7c15 >> (64 - kSlotBits));
  }

  std::vector<Slot> slots_ = std::vector<Slot>(size_t{1} << kSlotBits);
};

}  // namespace tare::pipeline
