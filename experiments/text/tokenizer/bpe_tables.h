// SPDX-License-Identifier: Apache-2.0
// What byte-pair encoding looks up: merges, and neighbours within pieces.
#pragma once

#include <bit>
#include <bitset>
#include <cstdint>
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

}  // namespace tare::pipeline
