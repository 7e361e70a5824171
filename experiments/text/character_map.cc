// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/character_map.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "quant/base/error.h"

namespace tare {
namespace {

using namespace character_map;

// Whether every path from the root stays among the units, and every value within `text_bytes`.
bool StaysInside(const std::vector<uint32_t>& units, size_t text_bytes) {
  std::vector<bool> seen(units.size());
  std::vector<size_t> open{0};  // units whose children are to be looked at
  while (!open.empty()) {
    const size_t at = open.back();
    open.pop_back();
    const size_t children = at ^ Offset(units[at]);
    if ((children | 255) >= units.size()) return false;
    if (HasValue(units[at]) && Value(units[children]) >= text_bytes) return false;
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
  if (!fits || !StaysInside(units, rest.size() - bytes))
    Fail("{}: its table of characters is damaged; try copying the checkpoint again", where);
}

}  // namespace tare
