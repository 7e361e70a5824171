// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/folders/scheme_keys.h"

#include <algorithm>

#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

// At most this much of a value is quoted.
std::string Shown(const Json& value) {
  constexpr size_t kMost = 60;
  std::string text = JsonText(value);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

// Lists within lists, as AutoRound and GPTQ write them.
bool Flatten(const Json& value, std::vector<std::string>& texts) {
  if (value.is_string()) texts.push_back(value.get<std::string>());
  if (value.is_string()) return true;
  return value.is_array() && std::ranges::all_of(value, [&](const Json& part) { return Flatten(part, texts); });
}

}  // namespace

SchemeKeys::SchemeKeys(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object_.is_object()) Fail("{}: got {}, expected an object", where_, Shown(object_));
}

const Json* SchemeKeys::Find(std::string_view key) {
  known_.emplace(key);
  const auto found = object_.find(std::string(key));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json& SchemeKeys::Get(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) Fail("{}: {}: missing; try the checkpoint's source", where_, key);
  return *value;
}

void SchemeKeys::Wrong(std::string_view key, std::string_view expected) const {
  Fail("{}: {}: got {}, expected {}", where_, key, Shown(object_.at(std::string(key))), expected);
}

int64_t SchemeKeys::Integer(std::string_view key, int64_t least, int64_t most) {
  const Json& value = Get(key);
  const bool fits =
      value.is_number_unsigned() ? std::in_range<int64_t>(value.get<uint64_t>()) : value.is_number_integer();
  if (!fits || value.get<int64_t>() < least || value.get<int64_t>() > most)
    Wrong(key, Formatted("an integer from {} to {}", least, most));
  return value.get<int64_t>();
}

int64_t SchemeKeys::Integer(std::string_view key, int64_t least, int64_t most, int64_t otherwise) {
  return Has(key) ? Integer(key, least, most) : otherwise;
}

bool SchemeKeys::Flag(std::string_view key, bool otherwise) {
  const Json* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) Wrong(key, "true or false");
  return value->get<bool>();
}

std::string SchemeKeys::Text(std::string_view key) {
  if (!Get(key).is_string()) Wrong(key, "a string");
  return Get(key).get<std::string>();
}

std::string SchemeKeys::Text(std::string_view key, const std::string& otherwise) {
  return Has(key) ? Text(key) : otherwise;
}

std::vector<std::string> SchemeKeys::Texts(std::string_view key) {
  std::vector<std::string> texts;
  const Json* value = Find(key);
  if (value == nullptr) return texts;
  if (!value->is_array() || !Flatten(*value, texts)) Wrong(key, "a list of strings");
  return texts;
}

void SchemeKeys::Only(std::string_view key, std::initializer_list<std::string_view> accepted) {
  const Json* value = Find(key);
  if (value == nullptr || std::ranges::contains(accepted, std::string_view(JsonText(*value)))) return;
  std::string list;
  for (const std::string_view text : accepted) list += (list.empty() ? "" : " or ") + std::string(text);
  Wrong(key, list.empty() ? "none: it is not supported" : list + ": others are not supported");
}

void SchemeKeys::Ignore(std::initializer_list<std::string_view> keys) { known_.insert(keys.begin(), keys.end()); }

void SchemeKeys::RefuseOthers() const {
  for (const auto& [key, value] : object_.items()) {
    if (!known_.contains(key) && !value.is_null())
      Fail("{}: {}: got {}, expected no such key: it is not known, and might change the weights", where_, key,
           Shown(value));
  }
}

}  // namespace tare
