// SPDX-License-Identifier: Apache-2.0
// Pieces and their ids, in both directions, with the ids of pieces that stand for one byte each.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tare::pipeline {

// Far more than any vocabulary in use: a larger id is damage and would take memory.
constexpr int64_t kLargestId = 100'000'000;

// Hashes strings and views of them alike.
struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};

// Finding is open addressing with linear probing, at most half full: a vocabulary of 128,000 pieces is found in two
// mebibytes, which hold of each piece its id and part of its hash.
class PieceTable {
 public:
  // Memory for so many pieces at once; more may follow.
  void Reserve(size_t pieces);
  // Throws Error for an id out of range, or used by two pieces.
  void Add(std::string piece, int64_t id, const std::string& where);

  std::optional<int32_t> Find(std::string_view piece) const;
  const std::string& Piece(int32_t id) const;
  size_t size() const { return used_; }  // pieces
  int32_t ids() const { return static_cast<int32_t>(pieces_.size()); }

  // Ids of <0x00> to <0xFF>; -1 for a missing one.
  std::array<int32_t, 256> Bytes() const;

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t id = -1;  // -1: free
  };

  // The piece's slot, or the free one where it would be.
  size_t PlaceOf(std::string_view piece, uint32_t hash) const;
  void Resize(size_t slots);  // a power of two

  std::vector<Slot> slots_ = std::vector<Slot>(2);
  size_t used_ = 0;                  // slots
  std::vector<std::string> pieces_;  // by id
};

}  // namespace tare::pipeline
