// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/piece_table.h"

#include <unicode/bytestriebuilder.h>

#include "quant/base/message.h"

namespace tare::pipeline {

void PieceTable::Add(const std::string& piece, int64_t id, const std::string& where) {
  if (id < 0 || id >= kLargestId) Fail("{}: '{}': got id {}, expected 0 to {}", where, piece, id, kLargestId - 1);
  const auto place = static_cast<size_t>(id);
  if (place >= pieces_.size()) pieces_.resize(place + 1);
  const auto [known, is_new] = ids_.try_emplace(piece, static_cast<int32_t>(id));
  if (!is_new) Fail("{}: got '{}' with ids {} and {}, expected one", where, piece, known->second, id);
  if (!pieces_[place].empty()) Fail("{}: got id {} of '{}' and of '{}'", where, id, pieces_[place], piece);
  pieces_[place] = piece;
}

std::optional<int32_t> PieceTable::Find(std::string_view piece) const {
  const auto found = ids_.find(piece);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
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

PrefixIndex::PrefixIndex(const std::map<std::string_view, int32_t>& texts, const std::string& where) {
  if (texts.empty() || texts.rbegin()->first.empty()) return;
  UErrorCode status = U_ZERO_ERROR;
  icu::BytesTrieBuilder builder(status);
  for (const auto& [text, id] : texts) {
    if (text.size() > kLongestIndexed)
      Fail("{}: id {}: got {} bytes, expected at most {}", where, id, text.size(), kLongestIndexed);
    if (!text.empty()) builder.add({text.data(), static_cast<int32_t>(text.size())}, id, status);
  }
  const icu::StringPiece trie = builder.buildStringPiece(USTRINGTRIE_BUILD_FAST, status);
  if (U_FAILURE(status)) Fail("{}: ICU: an index of {} texts: {}", where, texts.size(), u_errorName(status));
  trie_.assign(trie.data(), static_cast<size_t>(trie.length()));
}

}  // namespace tare::pipeline
