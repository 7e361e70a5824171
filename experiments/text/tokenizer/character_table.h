// SPDX-License-Identifier: Apache-2.0
// The normalizer Precompiled: SentencePiece's table of characters (experiments/text/character_map.h), in base64, as the
// tokenizers library applies it (spm_precompiled): grapheme clusters of less than 6 bytes first as a whole, then
// character by character; of several entries that a text begins with, the shortest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tare::pipeline {

class CharacterTable {
 public:
  // Throws Error where the table is damaged.
  CharacterTable(const std::string& base64, const std::string& where);

  std::string Apply(std::string_view text) const;

 private:
  // What the shortest entry that begins the text becomes; null where none does.
  const char* Find(std::string_view text) const;

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace tare::pipeline
