// SPDX-License-Identifier: Apache-2.0
// ICU's sets and forms, the byte alphabet, SentencePiece's trie; classes, normal forms, lower case,
// grapheme clusters, the byte alphabet's words, and SentencePiece's table.
#include "experiments/text/tokenizer/characters.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include <openssl/evp.h>
#include <unicode/brkiter.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/unistr.h>
#include <unicode/utext.h>
#include <unicode/utf8.h>

#include "experiments/text/tokenizer/text_to_words.h"
#include "quant/base/message.h"

namespace tare::pipeline {
namespace {

constexpr char32_t kDottedI = 0x130;  // the one character whose lower case is two: i and a dot above

void Check(UErrorCode status, const char* what) {
  if (U_FAILURE(status)) Fail("ICU: {}: {}; are its data files installed?", what, u_errorName(status));
}

// ICU's count of the text's bytes.
int32_t SizeOf(std::string_view text) {
  constexpr size_t kLargest = INT32_MAX;
  if (text.size() > kLargest) Fail("text: got {} bytes, expected at most {}; try cutting it", text.size(), kLargest);
  return static_cast<int32_t>(text.size());
}

// The library's tables are of Unicode 11: what came later stays as it is.
const icu::UnicodeSet& Normalized() {
  UErrorCode status = U_ZERO_ERROR;
  static const icu::UnicodeSet set(u"[:age=11.0:]", status);
  Check(status, "characters of Unicode 11");
  return set;
}

// In the order of NormalForm.
using FormOf = const icu::Normalizer2* (*)(UErrorCode&);
constexpr FormOf kForms[] = {icu::Normalizer2::getNFCInstance, icu::Normalizer2::getNFDInstance,
                             icu::Normalizer2::getNFKCInstance, icu::Normalizer2::getNFKDInstance};

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

constexpr size_t kWholeBytes = 6;  // clusters below are looked up as a whole

std::string FromBase64(const std::string& text, const std::string& where) {
  std::string bytes(text.size() / 4 * 3 + 3, '\0');
  const int got = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                  reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (text.size() % 4 != 0 || got < 0) Fail("{}: precompiled_charsmap: got text that is not base64", where);
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.resize(static_cast<size_t>(got) - padding);
  return bytes;
}

// A unit of Darts-clone's trie: bits 0-7 label, 8: a value follows, 9: offset << 8, 10-30 offset, 31: it is a value.
uint32_t Label(uint32_t unit) { return unit & 0x8000'00ff; }
uint32_t Offset(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }
bool HasValue(uint32_t unit) { return (unit & 0x100) != 0; }
uint32_t Value(uint32_t unit) { return unit & 0x7fff'ffff; }

// By offset: whether the text from there to its NUL is valid UTF-8.
std::vector<bool> ValidFrom(std::string_view texts) {
  std::vector<bool> valid(texts.size());
  for (size_t at = texts.size(); at-- > 0;) {
    const size_t length = Utf8SequenceLength(texts.substr(at));
    valid[at] = texts[at] == '\0' || (length > 0 && valid[at + length]);  // the last is NUL
  }
  return valid;
}

// Whether every path from the root stays among the units, and every value leads to a text of `texts`.
bool StaysInside(const std::vector<uint32_t>& units, std::string_view texts) {
  const std::vector<bool> valid = ValidFrom(texts);
  std::vector<bool> seen(units.size());
  std::vector<size_t> open{0};  // units whose children are to be looked at
  while (!open.empty()) {
    const size_t at = open.back();
    open.pop_back();
    const size_t children = at ^ Offset(units[at]);
    if ((children | 255) >= units.size()) return false;
    if (HasValue(units[at])) {
      const uint32_t text = Value(units[children]);
      if (text >= valid.size() || !valid[text]) return false;
    }
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const size_t child = children ^ byte;
      if (Label(units[child]) != byte || seen[child]) continue;
      seen[child] = true;
      open.push_back(child);
    }
  }
  return true;
}

struct CharacterMap {
  std::vector<uint32_t> units;
  std::string_view texts;
};

CharacterMap CheckedMap(std::string_view map, const std::string& where) {
  uint32_t bytes = 0;
  if (map.size() > sizeof bytes) std::memcpy(&bytes, map.data(), sizeof bytes);
  const std::string_view rest = map.substr(std::min(map.size(), sizeof bytes));
  const bool fits = bytes > 0 && bytes % sizeof(uint32_t) == 0 && bytes < rest.size() && rest.back() == '\0';
  std::vector<uint32_t> units(fits ? bytes / sizeof(uint32_t) : 0);
  if (fits) std::memcpy(units.data(), rest.data(), bytes);
  if (!fits || !StaysInside(units, rest.substr(bytes)))
    Fail("{}: its table of characters is damaged; try copying the checkpoint again", where);
  return {std::move(units), rest.substr(bytes)};
}

}  // namespace

bool IsWhitespace(char32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_WHITE_SPACE); }
bool IsNumeric(char32_t c) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_N_MASK) != 0; }

bool IsPunctuation(char32_t c) {
  if (c < 0x80) return c > 0x20 && c != 0x7f && !u_isalnum(static_cast<UChar32>(c));
  // The library's table is of Unicode 8, when two signs were not yet something else.
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return c == 0x166d || c == 0x111c9 || (age[0] <= 8 && (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_P_MASK) != 0);
}

bool IsWord(char32_t c) {
  const auto point = static_cast<UChar32>(c);
  return u_hasBinaryProperty(point, UCHAR_ALPHABETIC) || u_hasBinaryProperty(point, UCHAR_JOIN_CONTROL) ||
         (U_GET_GC_MASK(point) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

std::string Normalize(std::string_view text, NormalForm form) {
  std::string normal;
  icu::StringByteSink<std::string> sink(&normal);
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* const whole = kForms[static_cast<size_t>(form)](status);
  Check(status, "normal forms");
  icu::FilteredNormalizer2(*whole, Normalized())
      .normalizeUTF8(0, icu::StringPiece(text.data(), SizeOf(text)), sink, nullptr, status);
  Check(status, "normalizing");
  return normal;
}

std::string Lowercase(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const char32_t c = Next(text, &at);
    if (c == kDottedI) {
      lower += "i\xcc\x87";
    } else {
      Append(static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))), &lower);
    }
  }
  return lower;
}

std::string Lossy(std::string_view bytes) {
  std::string text;
  icu::UnicodeString::fromUTF8(icu::StringPiece(bytes.data(), SizeOf(bytes))).toUTF8String(text);
  return text;
}

void ForEachCluster(std::string_view text, const std::function<void(std::string_view)>& visit) {
  UErrorCode status = U_ZERO_ERROR;
  static const std::unique_ptr<icu::BreakIterator> prototype(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  Check(status, "grapheme clusters");
  const std::unique_ptr<icu::BreakIterator> breaks(prototype->clone());
  const std::unique_ptr<UText, decltype(&utext_close)> view(utext_openUTF8(nullptr, text.data(), SizeOf(text), &status),
                                                            utext_close);
  breaks->setText(view.get(), status);
  Check(status, "grapheme clusters");
  size_t begin = 0;
  for (int32_t end = breaks->next(); end != icu::BreakIterator::DONE; end = breaks->next()) {
    ThrowIfStopped();
    visit(text.substr(begin, static_cast<size_t>(end) - begin));
    begin = static_cast<size_t>(end);
  }
}

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

void CheckCharacterMap(std::string_view map, const std::string& where) {
  if (!map.empty()) (void)CheckedMap(map, where);
}

CharacterTable::CharacterTable(const std::string& base64, const std::string& where) {
  const std::string map = FromBase64(base64, where);
  if (map.empty()) return;
  CharacterMap checked = CheckedMap(map, where);
  units_ = std::move(checked.units);
  texts_ = checked.texts;
}

const char* CharacterTable::Find(std::string_view text) const {
  if (units_.empty()) return nullptr;
  size_t at = Offset(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return nullptr;
    at ^= byte;
    const uint32_t unit = units_[at];
    if (Label(unit) != byte) return nullptr;
    at ^= Offset(unit);
    if (HasValue(unit)) return texts_.c_str() + Value(units_[at]);
  }
  return nullptr;
}

std::string CharacterTable::Apply(std::string_view text) const {
  std::string mapped;
  ForEachCluster(text, [&](std::string_view cluster) {
    RequireGrowth(text.size(), mapped.size(), "Precompiled");
    if (const char* const whole = cluster.size() < kWholeBytes ? Find(cluster) : nullptr) {
      mapped += whole;
      return;
    }
    for (size_t at = 0; at < cluster.size();) {
      const size_t from = at;
      Next(cluster, &at);
      const std::string_view character = cluster.substr(from, at - from);
      const char* const found = Find(character);
      mapped += found != nullptr ? std::string_view(found) : character;
    }
  });
  return mapped;
}

}  // namespace tare::pipeline
