// SPDX-License-Identifier: Apache-2.0
// Characters for the steps of a tokenizer.json: classes, lower case and normal forms by ICU, limited to the tokenizers
// library's (0.23.1) Unicode versions. Its digits and lower case are Unicode 17's, ours ICU's: 41 characters of 2025
// differ. And SentencePiece's table. Texts must be valid UTF-8.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/text/utf8.h"

namespace tare::pipeline {

bool IsWhitespace(char32_t c);   // White_Space, Rust's char::is_whitespace
bool IsNumeric(char32_t c);      // Nd, Nl, No: Rust's char::is_numeric
bool IsPunctuation(char32_t c);  // ASCII punctuation, or any of the P categories of Unicode 8
bool IsWord(char32_t c);         // \w of Rust's regex crate

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
std::string Normalize(std::string_view text, NormalForm form);
// Character by character, like Rust's char::to_lowercase, without rules for neighbours.
std::string Lowercase(std::string_view text);
// Replaces every maximal invalid part by U+FFFD.
std::string Lossy(std::string_view bytes);
// Visits the extended grapheme clusters in order. Throws Interrupted after RequestStop.
void ForEachCluster(std::string_view text, const std::function<void(std::string_view)>& visit);

// GPT-2's alphabet: each of the 256 bytes as a printable character. Bytes 33-126, 161-172 and 174-255 stand for
// themselves, the others become U+0100 and up, in order (bytes_to_unicode of openai/gpt-2's encoder.py).
std::string ToAlphabet(std::string_view bytes);
// nullopt if a character is not in the alphabet.
std::optional<std::string> FromAlphabet(std::string_view text);

// SentencePiece's table of characters, mapped before pieces are looked for: a tokenizer.model's precompiled_charsmap,
// or a tokenizer.json's normalizer Precompiled, in base64. It has 4 bytes with the size of a double-array trie, the
// trie, and NUL-terminated texts that its values are offsets into. SentencePiece follows the trie unchecked and passes
// on any bytes as text, so a damaged table could make it read out of bounds: both are checked here first.
//
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
