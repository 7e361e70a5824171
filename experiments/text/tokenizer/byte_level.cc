// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/byte_level.h"

#include <array>
#include <cstdint>

#include "experiments/text/tokenizer/characters.h"

namespace tare::pipeline {
namespace {

constexpr int kCharacters = 0x144;  // the last is U+0143

struct Alphabet {
  std::array<char32_t, 256> characters;
  std::array<int16_t, kCharacters> bytes;

  Alphabet() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool prints = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      const char32_t c = prints ? static_cast<char32_t>(byte) : next++;
      characters[static_cast<size_t>(byte)] = c;
      bytes[c] = static_cast<int16_t>(byte);
    }
  }
};

const Alphabet& TheAlphabet() {
  static const Alphabet alphabet;
  return alphabet;
}

}  // namespace

std::string ToAlphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) Append(TheAlphabet().characters[static_cast<unsigned char>(byte)], &text);
  return text;
}

std::optional<std::string> FromAlphabet(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = Next(text, &at);
    if (c >= kCharacters || TheAlphabet().bytes[c] < 0) return std::nullopt;
    bytes += static_cast<char>(TheAlphabet().bytes[c]);
  }
  return bytes;
}

}  // namespace tare::pipeline
