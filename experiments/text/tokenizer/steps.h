// SPDX-License-Identifier: Apache-2.0
// Shared by the parsers of a tokenizer.json: lists of steps (objects with a "type"), required keys,
// and how far the steps may stretch a text.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "quant/base/message.h"
#include "quant/file/json.h"

namespace tare::pipeline {

using Json = nlohmann::json;

// The value of a required key, or `otherwise`. Throws Error for another type.
template <typename T>
T Get(const Json& json, const char* key, const std::string& where) {
  const auto found = json.find(key);
  if (found == json.end()) Fail("{}: got no {}, expected one", where, key);
  if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    return IntegerOf<T>(*found, where + ": " + key);
  } else if constexpr (std::same_as<T, std::vector<int32_t>>) {
    if (!found->is_array()) Fail("{}: {}: got {}, expected a list of integers", where, key, found->dump());
    T list;
    for (const Json& value : *found) list.push_back(IntegerOf<int32_t>(value, where + ": " + key));
    return list;
  } else
    try {
      return found->get<T>();
    } catch (const Json::exception&) {
      Fail("{}: {}: got {}, expected another type", where, key, found->dump());
    }
}
template <typename T>
T GetOr(const Json& json, const char* key, T otherwise, const std::string& where) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? otherwise : Get<T>(json, key, where);
}

// Visits the object itself, or the members of a Sequence (in a list named `list`), also of nested ones; null has none.
void ForEachStep(const Json& json, const std::string& where, const char* list, const auto& visit) {
  if (json.is_null()) return;
  if (!json.is_object()) Fail("{}: got {}, expected an object or null", where, json.dump());
  if (Get<std::string>(json, "type", where) != "Sequence") return visit(json);
  const auto members = json.find(list);
  if (members == json.end() || !members->is_array()) Fail("{}: Sequence: got no list {}", where, list);
  for (const Json& member : *members) ForEachStep(member, where, list, visit);
}

template <typename Step>
using Table = std::map<std::string, Step (*)(const Json&, const std::string&)>;

// The step with the object's type. Throws Error, naming the type, if the table does not have it.
template <typename Step>
Step StepOf(const Json& json, const std::string& where, const Table<Step>& table) {
  const auto type = Get<std::string>(json, "type", where);
  if (const auto known = table.find(type); known != table.end()) return known->second(json, where + ": " + type);
  std::string names;
  for (const auto& [name, step] : table) names += name + ", ";
  Fail("{}: got type {}, expected one of: {}Sequence", where, type, names);
}

// There may be any number of steps, and each may replace every character by a long text, so without a limit a small
// file could exhaust memory. Files in use at most triple a text; NFKC's longest expansion is eleven times (U+FDFA).
constexpr size_t kLargestGrowth = 16, kGrowthBytes = 64 << 10;

// Throws Error, naming `step`, if `after` exceeds both 16 times `before` and 64 KiB.
inline void RequireGrowth(size_t before, size_t after, std::string_view step) {
  const size_t most = before * kLargestGrowth + kGrowthBytes;
  if (after > most)
    Fail("{}: got {} bytes from a text of {}, expected at most {}; is the file damaged?", step, after, before, most);
}

}  // namespace tare::pipeline
