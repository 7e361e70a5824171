// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/piece_table.h"

#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare::pipeline {

void PieceTable::Add(std::string piece, int64_t id, const std::string& where) {
  if (id < 0 || id >= kLargestId) Fail("{}: '{}': got id {}, expected 0 to {}", where, piece, id, kLargestId - 1);
  const auto place = static_cast<size_t>(id);
  if (place >= pieces_.size()) pieces_.resize(place + 1);
  const auto [other, is_new] = by_piece_.emplace(piece, static_cast<int32_t>(id));
  if (!is_new) Fail("{}: got '{}' with ids {} and {}, expected one", where, piece, other->second, id);
  if (!pieces_[place].empty()) Fail("{}: got id {} of '{}' and of '{}'", where, id, pieces_[place], piece);
  pieces_[place] = std::move(piece);
}

std::optional<int32_t> PieceTable::Find(std::string_view piece) const {
  const auto found = by_piece_.find(piece);
  return found == by_piece_.end() ? std::nullopt : std::optional(found->second);
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

}  // namespace tare::pipeline
