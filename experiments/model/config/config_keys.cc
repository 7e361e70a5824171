// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/config/config_keys.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "quant/base/error.h"
#include "quant/file/json.h"

namespace tare {
bool ConfigKeys::Has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }

bool ConfigKeys::IsNull(const char* key) const { return object_.contains(key) && object_[key].is_null(); }

int ConfigKeys::Integer(const char* key, int smallest) const {
  const nlohmann::json& value = Get(key);
  if (!value.is_number_integer()) Wrong(key, "an integer");
  const auto number = value.get<int64_t>();
  if (number < smallest || number > std::numeric_limits<int32_t>::max()) {
    Fail("{}: {}: got {}, expected {} to {}", where_, key, value.dump(), smallest, std::numeric_limits<int32_t>::max());
  }
  return static_cast<int>(number);
}

double ConfigKeys::Positive(const char* key) const {
  const nlohmann::json& value = Get(key);
  if (!value.is_number() || !(value.get<double>() > 0) || !std::isfinite(value.get<double>()))
    Wrong(key, "a positive number");
  return value.get<double>();
}

std::vector<double> ConfigKeys::Positives(const char* key) const {
  std::vector<double> numbers;
  if (!Get(key).is_array()) Wrong(key, "a list of positive numbers");
  for (const nlohmann::json& one : object_[key]) {
    const nlohmann::json item{{key, one}};
    numbers.push_back(ConfigKeys(item, where_).Positive(key));
  }
  return numbers;
}

bool ConfigKeys::Flag(const char* key, bool otherwise) const {
  if (!Has(key)) return otherwise;
  if (!object_[key].is_boolean()) Wrong(key, "true or false");
  return object_[key].get<bool>();
}

std::string ConfigKeys::Text(const char* key) const {
  if (!Get(key).is_string()) Wrong(key, "a string");
  return object_[key].get<std::string>();
}

std::vector<std::string> ConfigKeys::Texts(const char* key) const {
  std::vector<std::string> texts;
  if (!Get(key).is_array()) Wrong(key, "a list of strings");
  for (const nlohmann::json& text : object_[key]) {
    if (!text.is_string()) Wrong(key, "a list of strings");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

bool ConfigKeys::IsText(const char* key) const { return Get(key).is_string(); }
bool ConfigKeys::IsList(const char* key) const { return Get(key).is_array(); }

std::vector<std::optional<int>> ConfigKeys::Integers(const char* key, int smallest) const {
  std::vector<std::optional<int>> integers;
  if (!Get(key).is_array()) Wrong(key, "a list of integers");
  for (const nlohmann::json& one : object_[key]) {
    const nlohmann::json item{{key, one}};
    integers.push_back(one.is_null() ? std::nullopt : std::optional(ConfigKeys(item, where_).Integer(key, smallest)));
  }
  return integers;
}

ConfigKeys ConfigKeys::Object(const char* key) const {
  if (!Get(key).is_object()) Wrong(key, "an object");
  return {object_[key], where_ + ": " + key};
}

void ConfigKeys::Refuse(const char* key, std::initializer_list<const char*> accepted) const {
  if (!Has(key)) return;
  const std::string value = object_[key].dump();
  if (value == "false") return;
  for (const char* text : accepted) {
    if (value == text) return;
  }
  Fail("{}: {}: {} is not supported", where_, key, value);
}

const nlohmann::json& ConfigKeys::Get(const char* key) const {
  if (!Has(key)) Fail("{}: key '{}' is missing, and the model cannot be built without it", where_, key);
  return object_[key];
}

void ConfigKeys::Wrong(const char* key, const char* expected) const {
  Fail("{}: {}: got {}, expected {}", where_, key, object_[key].dump(), expected);
}

int ReadWindow(const ConfigKeys& keys, int otherwise) {
  return keys.IsNull("sliding_window") ? 0 : keys.Integer("sliding_window", 1, otherwise);
}

std::vector<int> ReadWindows(const ConfigKeys& keys, int layers, int window, const std::function<bool(int)>& slides) {
  std::vector<int> windows(static_cast<size_t>(layers));
  if (!keys.Has("layer_types")) {
    for (int layer = 0; layer < layers; ++layer) windows[static_cast<size_t>(layer)] = slides(layer) ? window : 0;
  } else {
    const std::vector<std::string> types = keys.Texts("layer_types");
    if (types.size() != windows.size())
      Fail("{}: layer_types: got {} layers, expected num_hidden_layers {}", keys.where(), types.size(), layers);
    for (size_t layer = 0; layer < types.size(); ++layer) {
      if (types[layer] == "full_attention") continue;
      if (types[layer] != "sliding_attention")
        Fail(
            "{}: layer_types: got '{}' in layer {}, expected full_attention or sliding_attention (others are not "
            "supported)",
            keys.where(), types[layer], layer);
      if (window == 0)
        Fail(
            "{}: layer_types: got sliding_attention in layer {}, expected full_attention, as no sliding_window is in "
            "use",
            keys.where(), layer);
      windows[layer] = window;
    }
  }
  if (std::ranges::count(windows, 0) == layers) windows.clear();
  return windows;
}

std::vector<int> ReadQwenWindows(const ConfigKeys& keys, int layers) {
  const int window = keys.Flag("use_sliding_window", false) ? ReadWindow(keys, 4096) : 0;
  const int first = keys.Integer("max_window_layers", 0, 28);
  return ReadWindows(keys, layers, window, [first](int layer) { return layer >= first; });
}

}  // namespace tare
