// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/piece_table.h"

#include <bit>

#include "quant/base/message.h"

namespace tare::pipeline {
namespace {

uint32_t HashOf(std::string_view piece) { return static_cast<uint32_t>(std::hash<std::string_view>()(piece)); }

}  // namespace

void PieceTable::Reserve(size_t pieces) {
  pieces_.reserve(pieces);
  if (const size_t slots = std::bit_ceil(2 * pieces + 1); slots > slots_.size()) Resize(slots);
}

void PieceTable::Add(std::string piece, int64_t id, const std::string& where) {
  if (id < 0 || id >= kLargestId) Fail("{}: '{}': got id {}, expected 0 to {}", where, piece, id, kLargestId - 1);
  const auto place = static_cast<size_t>(id);
  if (place >= pieces_.size()) pieces_.resize(place + 1);
  if (2 * (used_ + 1) > slots_.size()) Resize(2 * slots_.size());
  const uint32_t hash = HashOf(piece);
  Slot& slot = slots_[PlaceOf(piece, hash)];
  if (slot.id >= 0) Fail("{}: got '{}' with ids {} and {}, expected one", where, piece, slot.id, id);
  if (!pieces_[place].empty()) Fail("{}: got id {} of '{}' and of '{}'", where, id, pieces_[place], piece);
  slot = {hash, static_cast<int32_t>(id)};
  ++used_;
  pieces_[place] = std::move(piece);
}

std::optional<int32_t> PieceTable::Find(std::string_view piece) const {
  const Slot& slot = slots_[PlaceOf(piece, HashOf(piece))];
  return slot.id < 0 ? std::nullopt : std::optional(slot.id);
}

size_t PieceTable::PlaceOf(std::string_view piece, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.id < 0 || (slot.hash == hash && pieces_[static_cast<size_t>(slot.id)] == piece)) return at;
  }
}

void PieceTable::Resize(size_t slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    size_t at = slot.hash & (slots - 1);
    while (slots_[at].id >= 0) at = (at + 1) & (slots - 1);
    slots_[at] = slot;
  }
}

const std::string& PieceTable::Piece(int32_t id) const {
  static const std::string none;
  return id >= 0 && id < ids() ? pieces_[static_cast<size_t>(id)] : none;
}

std::array<int32_t, 256> PieceTable::Bytes() const {
  std::array<int32_t, 256> bytes{};
  for (size_t byte = 0; byte < bytes.size(); ++byte) bytes[byte] = Find(Formatted("<0x{:02X}>", byte)).value_or(-1);
  return bytes;
}

PrefixIndex::PrefixIndex(std::vector<std::pair<std::string_view, int32_t>> texts) : sorted_(std::move(texts)) {
  std::erase_if(sorted_, [](const auto& entry) { return entry.first.empty(); });
  std::ranges::sort(sorted_);
  const auto same = std::ranges::unique(sorted_, {}, &std::pair<std::string_view, int32_t>::first);
  sorted_.erase(same.begin(), same.end());
  for (const auto& [text, number] : sorted_) ++begins_[static_cast<unsigned char>(text[0]) + size_t{1}];
  for (size_t byte = 1; byte < begins_.size(); ++byte) begins_[byte] += begins_[byte - 1];
}

}  // namespace tare::pipeline
