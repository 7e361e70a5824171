// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/character_table.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>

#include "experiments/text/tokenizer/characters.h"
#include "experiments/text/tokenizer/steps.h"
#include "experiments/text/utf8.h"
#include "quant/base/message.h"

namespace tare::pipeline {
namespace {

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

// Fields of a unit of the trie, as Darts-clone packs them: bits 0-7 label, 8 whether a value follows, 9 whether the
// offset is shifted by 8, 10-30 offset; bit 31 marks a value.
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
