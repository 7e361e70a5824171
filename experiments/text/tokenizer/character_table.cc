// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/character_table.h"

#include <openssl/evp.h>

#include <cstring>

#include "experiments/text/character_map.h"
#include "experiments/text/tokenizer/characters.h"
#include "experiments/text/tokenizer/growth.h"
#include "quant/base/error.h"

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

using namespace character_map;

}  // namespace

CharacterTable::CharacterTable(const std::string& base64, const std::string& where) {
  const std::string map = FromBase64(base64, where);
  CheckCharacterMap(map, where);
  if (map.empty()) return;
  uint32_t bytes = 0;
  std::memcpy(&bytes, map.data(), sizeof bytes);
  units_.resize(bytes / sizeof(uint32_t));
  std::memcpy(units_.data(), map.data() + sizeof bytes, bytes);
  texts_ = map.substr(sizeof bytes + bytes);
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
  size_t begin = 0;
  for (const size_t end : GraphemeEnds(text)) {
    const std::string_view cluster = text.substr(begin, end - begin);
    begin = end;
    if (const char* const whole = cluster.size() < kWholeBytes ? Find(cluster) : nullptr) {
      mapped += whole;
      RequireGrowth(text.size(), mapped.size(), "Precompiled");
      continue;
    }
    for (size_t at = 0; at < cluster.size();) {
      const size_t from = at;
      Next(cluster, &at);
      const std::string_view character = cluster.substr(from, at - from);
      const char* const found = Find(character);
      mapped += found != nullptr ? std::string_view(found) : character;
    }
    RequireGrowth(text.size(), mapped.size(), "Precompiled");
  }
  return mapped;
}

}  // namespace tare::pipeline
