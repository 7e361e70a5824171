// SPDX-License-Identifier: Apache-2.0
// SentencePiece's table of characters: with it a tokenizer.model maps characters before it looks for pieces
// (NormalizerSpec's precompiled_charsmap), and a tokenizer.json in its normalizer Precompiled, in base64. It has 4
// bytes with the size of a double-array trie in bytes, the trie, and the texts that its values are offsets into, each
// ended by NUL. SentencePiece follows the trie unchecked and passes on any bytes as text, so a damaged table could make
// it read out of bounds: both are checked here first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tare::pipeline {

// Throws Error if a text could lead outside or become invalid UTF-8. "" means no table.
void CheckCharacterMap(std::string_view map, const std::string& where);

// Applied as the tokenizers library does it (spm_precompiled): grapheme clusters below 6 bytes first as a whole, then
// character by character; of several entries that match, the shortest.
class CharacterTable {
 public:
  // Throws Error if the table is damaged.
  CharacterTable(const std::string& base64, const std::string& where);

  std::string Apply(std::string_view text) const;

 private:
  // The replacement for the shortest entry that the text begins with; null if there is none.
  const char* Find(std::string_view text) const;

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace tare::pipeline
