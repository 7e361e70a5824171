// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/character_map.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "experiments/text/utf8.h"
#include "quant/base/error.h"

namespace tare {
namespace {

using namespace character_map;

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

}  // namespace

void CheckCharacterMap(std::string_view map, const std::string& where) {
  if (map.empty()) return;
  uint32_t bytes = 0;
  if (map.size() > sizeof bytes) std::memcpy(&bytes, map.data(), sizeof bytes);
  const std::string_view rest = map.substr(std::min(map.size(), sizeof bytes));
  const bool fits = bytes > 0 && bytes % sizeof(uint32_t) == 0 && bytes < rest.size() && rest.back() == '\0';
  std::vector<uint32_t> units(fits ? bytes / sizeof(uint32_t) : 0);
  if (fits) std::memcpy(units.data(), rest.data(), bytes);
  if (!fits || !StaysInside(units, rest.substr(bytes)))
    Fail("{}: its table of characters is damaged; try copying the checkpoint again", where);
}

}  // namespace tare
