// SPDX-License-Identifier: Apache-2.0
// Files of JSON lines, and the fields of one line, with messages that name file and line.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/passes/sequences.h"
#include "quant/file/json_value.h"

namespace tare {

struct JsonLine {
  std::string_view text;
  std::string where;  // file and line, for messages
  size_t number = 0;  // from 1
};

// Places of `limit` of n items (0: all), rising: the first; or spread, one drawn from each of as many equal parts,
// because files often repeat an order, of which even distances would take one kind.
std::vector<size_t> TakenPlaces(size_t n, size_t limit, TakeFrom from);

// That many lines of a file that are not whitespace. Throws Error for text that is not UTF-8, and if there is no such
// line.
void ForEachLine(const std::filesystem::path& path, size_t limit, TakeFrom from,
                 const std::function<void(const JsonLine&)>& body);

// Every such line as an item, which gets its line's number.
template <typename Item>
std::vector<Item> LoadLines(const std::filesystem::path& path, size_t limit, TakeFrom from,
                            Item (*parse)(std::string_view json, const std::string& where)) {
  std::vector<Item> items;
  ForEachLine(path, limit, from, [&](const JsonLine& line) {
    items.push_back(parse(line.text, line.where));
    items.back().line = line.number;
  });
  return items;
}

// An object. Throws Error for anything else; `expected` says with what fields.
nlohmann::json ParseObject(std::string_view text, const std::string& where, const char* expected);

bool HasFields(const nlohmann::json& json, std::initializer_list<const char*> fields);

// Throw Error if the field is missing or of another type.
const std::string& StringField(const nlohmann::json& json, const char* key, const std::string& where);
std::vector<std::string> StringsField(const nlohmann::json& json, const char* key, const std::string& where);
// 0 to count - 1, as a number or as a string of one.
int IndexField(const nlohmann::json& json, const char* key, size_t count, const std::string& where);

// What an item can be grouped by: the fields that are a number, a string or a boolean, less those of `itself`.
Json KeysOf(const nlohmann::json& json, std::initializer_list<const char*> itself);

}  // namespace tare
