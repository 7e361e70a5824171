// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/items/lines.h"

#include <algorithm>

#include "experiments/significance/draws.h"
#include "experiments/text/utf8.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/json.h"
#include "quant/file/mapped_file.h"
#include "quant/file/strict_json.h"

namespace tare {

namespace {

// Lines that are not whitespace; the first `limit`, or all for 0. What is whitespace can be told of UTF-8 alone.
std::vector<JsonLine> FirstLines(std::string_view rest, size_t limit, const std::string& path) {
  std::vector<JsonLine> lines;
  for (size_t number = 1; !rest.empty() && (limit == 0 || lines.size() < limit); ++number) {
    const std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
    std::string where = path + ": line " + std::to_string(number);
    RequireUtf8(text, where);
    if (!Strip(text).empty()) lines.push_back({text, std::move(where), number});
  }
  return lines;
}

}  // namespace

std::vector<size_t> TakenPlaces(size_t n, size_t limit, TakeFrom from) {
  const size_t count = limit == 0 ? n : std::min(n, limit);
  Draws draws(1);  // the same of the same file
  std::vector<size_t> places;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = i * n / count, end = (i + 1) * n / count;
    places.push_back(from == TakeFrom::kStart ? i : begin + draws.Below(end - begin));
  }
  return places;
}

void ForEachLine(const std::filesystem::path& path, size_t limit, TakeFrom from,
                 const std::function<void(const JsonLine&)>& body) {
  const MappedFile file(path);
  const std::vector<JsonLine> lines = FirstLines(file.text(), from == TakeFrom::kStart ? limit : 0, path.string());
  if (lines.empty()) Fail("{}: got no items, expected one per line in JSON", path.string());
  for (const size_t place : TakenPlaces(lines.size(), limit, from)) body(lines[place]);
}

nlohmann::json ParseObject(std::string_view text, const std::string& where, const char* expected) {
  nlohmann::json json = ParseJson(text, where);
  if (!json.is_object()) Fail("{}: got {}, expected an object with {}", where, json.type_name(), expected);
  return json;
}

bool HasFields(const nlohmann::json& json, std::initializer_list<const char*> fields) {
  return std::ranges::all_of(fields, [&](const char* field) { return json.contains(field); });
}

const std::string& StringField(const nlohmann::json& json, const char* key, const std::string& where) {
  const auto field = json.find(key);
  if (field == json.end()) Fail("{}: got no \"{}\", expected a string", where, key);
  if (!field->is_string()) Fail("{}: \"{}\": got {}, expected a string", where, key, field->dump());
  return field->get_ref<const std::string&>();
}

std::vector<std::string> StringsField(const nlohmann::json& json, const char* key, const std::string& where) {
  const auto field = json.find(key);
  if (field == json.end() || !field->is_array() || field->size() < 2) {
    Fail("{}: \"{}\": got {}, expected a list of at least two strings", where, key,
         field == json.end() ? "none" : field->dump());
  }
  std::vector<std::string> strings;
  for (const nlohmann::json& string : *field) {
    if (!string.is_string()) Fail("{}: \"{}\": got {}, expected strings", where, key, string.dump());
    strings.push_back(string.get<std::string>());
  }
  return strings;
}

int IndexField(const nlohmann::json& json, const char* key, size_t count, const std::string& where) {
  const auto field = json.find(key);
  if (field == json.end()) Fail("{}: got no \"{}\", expected the true ending's index", where, key);
  int64_t index = -1;
  if (field->is_string()) {
    index = ParseNumber<int64_t>(field->get_ref<const std::string&>()).value_or(-1);
  } else if (field->is_number_integer()) {
    index = field->get<int64_t>();
  }
  if (index < 0 || static_cast<uint64_t>(index) >= count) {
    Fail("{}: \"{}\": got {}, expected 0 to {}, the index of an ending (test splits have no answers)", where, key,
         field->dump(), count - 1);
  }
  return static_cast<int>(index);
}

Json KeysOf(const nlohmann::json& json, std::initializer_list<const char*> itself) {
  Json keys = Json::object();
  for (const auto& [name, value] : json.items()) {
    if (value.is_primitive() && !value.is_null() && !std::ranges::contains(itself, std::string_view(name)))
      keys[name] = value;
  }
  return keys;
}

}  // namespace tare
