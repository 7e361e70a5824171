// SPDX-License-Identifier: Apache-2.0
#include "quant/file/tensor_names.h"

#include <algorithm>
#include <cstddef>
#include <ranges>

#include "quant/base/message.h"
#include "quant/file/json.h"

namespace tare {
namespace {

constexpr std::string_view kLayer = "{}";

// The layer's number in a name that fits the pattern, "" for a pattern without one; empty if it does not fit.
std::optional<std::string> NumberIn(std::string_view name, std::string_view pattern) {
  const size_t at = pattern.find(kLayer);
  if (at == pattern.npos) return name == pattern ? std::optional(std::string()) : std::nullopt;
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(at + kLayer.size());
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after))
    return std::nullopt;
  const std::string_view number = name.substr(before.size(), name.size() - before.size() - after.size());
  const bool is_number = std::ranges::all_of(number, [](char c) { return '0' <= c && c <= '9'; });
  return is_number ? std::optional(std::string(number)) : std::nullopt;
}

std::string WithNumber(std::string pattern, const std::string& number) {
  if (const size_t at = pattern.find(kLayer); at != pattern.npos) pattern.replace(at, kLayer.size(), number);
  return pattern;
}

// The number of {} in a pattern that is not empty.
ptrdiff_t Layers(std::string_view pattern) { return std::ranges::distance(std::views::split(pattern, kLayer)) - 1; }

std::string NameIn(const nlohmann::json& value, const std::string& where) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty())
    Fail("{}: got {}, expected a tensor's name", where, value.dump());
  return value.get<std::string>();
}

}  // namespace

std::optional<TensorNamesFile> TensorNamesFile::In(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kName;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  TensorNamesFile file;
  file.where_ = path.string();
  const nlohmann::json json = ReadJson(path);
  if (!json.is_object()) Fail("{}: got {}, expected an object", file.where_, json.type_name());
  for (const auto& [key, value] : json.items()) {
    const bool is_list = key == "ignore";
    if (key != "names" && key != "config" && !is_list)
      Fail("{}: got key '{}', expected names, ignore or config", file.where_, key);
    if (is_list ? !value.is_array() : !value.is_object())
      Fail("{}: {}: got {}, expected {}", file.where_, key, value.type_name(), is_list ? "a list" : "an object");
  }
  const auto names = json.value("names", nlohmann::json::object()),
             ignored = json.value("ignore", nlohmann::json::array());
  for (const auto& [ours, theirs] : names.items())
    file.entries_.emplace_back(ours, NameIn(theirs, file.where_ + ": names: '" + ours + "'"));
  for (const nlohmann::json& theirs : ignored) file.entries_.emplace_back("", NameIn(theirs, file.where_ + ": ignore"));
  for (const auto& [ours, theirs] : file.entries_) {
    if (Layers(theirs) > 1 || (!ours.empty() && Layers(ours) != Layers(theirs)))
      Fail("{}: names: '{}': got '{}', expected {{}} for a layer's number once in both or in neither", file.where_,
           ours, theirs);
  }
  file.config_ = json.value("config", nlohmann::json::object()).dump();
  return file;
}

std::map<std::string, std::string> TensorNamesFile::OursOf(const std::vector<std::string>& stored) const {
  std::map<std::string, std::string> ours_of;
  for (const auto& [ours, theirs] : entries_) {
    bool found = false;
    for (const std::string& name : stored) {
      const std::optional<std::string> number = NumberIn(name, theirs);
      if (!number) continue;
      found = true;
      const auto [before, is_new] = ours_of.emplace(name, WithNumber(ours, *number));
      if (!is_new)
        Fail("{}: names: tensor '{}': got '{}' and '{}' for it, expected one name", where_, name, before->second, ours);
    }
    if (!found)
      Fail("{}: {}: got '{}', which the checkpoint does not have{}", where_,
           ours.empty() ? "ignore" : "names: '" + ours + "'", theirs, NearestText(WithNumber(theirs, "0"), stored));
  }
  std::map<std::string, std::string> theirs_of;
  for (const std::string& name : stored) {
    const std::string& ours = ours_of.emplace(name, name).first->second;
    if (ours.empty()) continue;
    const auto [before, is_new] = theirs_of.emplace(ours, name);
    if (!is_new) Fail("{}: names: '{}': got '{}' and '{}', expected one tensor", where_, ours, before->second, name);
  }
  return ours_of;
}

std::string TensorNamesFile::ConfigText(const std::optional<std::string>& text, const std::string& where) const {
  Json config = text ? ParseOrderedJson(*text, where) : Json::object();
  if (!config.is_object()) Fail("{}: not a JSON object; try saving the checkpoint again", where);
  config.update(Json::parse(config_));
  return config.dump(2) + "\n";
}

}  // namespace tare
