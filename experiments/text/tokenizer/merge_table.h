// SPDX-License-Identifier: Apache-2.0
// The merges of byte-pair encoding by their two pieces: open addressing with linear probing, at most half full, so that
// a pair that does not merge, as most do not, costs one line of memory.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace tare::pipeline {

struct Merge {
  int32_t rank, id;  // learnt earlier: smaller; of the joined piece
};

class MergeTable {
 public:
  MergeTable() = default;
  // For up to `merges` of them.
  explicit MergeTable(size_t merges) : slots_(std::bit_ceil(2 * merges + 1)) {}

  // Of the same pair twice, the last counts. left >= 0, right >= 0.
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

  // Of the pair, or the free place where it would be.
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

}  // namespace tare::pipeline
