// SPDX-License-Identifier: Apache-2.0
// The normalizer Precompiled: SentencePiece's table of characters (experiments/text/character_map.h) in base64, applied
// as the tokenizers library does it (spm_precompiled): grapheme clusters below 6 bytes first as a whole, then character
// by character; of several entries that match, the shortest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tare::pipeline {

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
