// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/config_keys.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "quant/base/error.h"
#include "quant/file/json.h"

namespace tare {
namespace {

RotaryConfig::Type ParseRotaryType(const ConfigKeys& keys) {
  const char* key = keys.Has("rope_type") ? "rope_type" : "type";  // `type`: before transformers 4.43
  const std::string type = keys.Has(key) ? keys.Text(key) : "default";
  if (type == "default") return RotaryConfig::Type::kDefault;
  if (type == "linear") return RotaryConfig::Type::kLinear;
  if (type == "llama3") return RotaryConfig::Type::kLlama3;
  if (type == "yarn") return RotaryConfig::Type::kYarn;
  Fail("{}: {}: got '{}', expected default, linear, llama3 or yarn (others are not supported)", keys.where(), key,
       type);
}

void ReadYarn(const ConfigKeys& keys, RotaryConfig& rotary) {
  if (rotary.factor < 1) Fail("{}: factor: got {}, expected at least 1", keys.where(), rotary.factor);
  rotary.original_positions = keys.Positive("original_max_position_embeddings");
  rotary.fast_rotations = keys.Positive("beta_fast", rotary.fast_rotations);
  rotary.slow_rotations = keys.Positive("beta_slow", rotary.slow_rotations);
  if (rotary.fast_rotations <= rotary.slow_rotations)
    Fail("{}: beta_fast: got {}, expected more than beta_slow {}", keys.where(), rotary.fast_rotations,
         rotary.slow_rotations);
  if (!(rotary.original_positions > rotary.slow_rotations * 2 * std::numbers::pi))
    Fail("{}: original_max_position_embeddings: got {}, expected more than beta_slow {} turns of 2 pi", keys.where(),
         rotary.original_positions, rotary.slow_rotations);
  if (rotary.theta <= 1) Fail("{}: rope_theta: got {}, expected more than 1 for yarn", keys.where(), rotary.theta);
  rotary.truncate = keys.Flag("truncate", true);
  const bool both = keys.Has("mscale") && keys.Has("mscale_all_dim");
  const double usual = both ? YarnAttentionFactor(rotary.factor, keys.Positive("mscale")) /
                                  YarnAttentionFactor(rotary.factor, keys.Positive("mscale_all_dim"))
                            : YarnAttentionFactor(rotary.factor);
  rotary.attention_factor = keys.Positive("attention_factor", usual);
}

void ReadScaling(const ConfigKeys& keys, int max_positions, RotaryConfig& rotary) {
  rotary.type = ParseRotaryType(keys);
  keys.Refuse("partial_rotary_factor", {"1", "1.0"});
  if (rotary.type == RotaryConfig::Type::kDefault) return;
  rotary.factor = keys.Positive("factor");
  if (rotary.type == RotaryConfig::Type::kLinear) return;
  if (rotary.type == RotaryConfig::Type::kYarn) return ReadYarn(keys, rotary);
  rotary.low_frequency_factor = keys.Positive("low_freq_factor");
  rotary.high_frequency_factor = keys.Positive("high_freq_factor");
  rotary.original_positions = keys.Positive("original_max_position_embeddings", max_positions);
  if (rotary.high_frequency_factor <= rotary.low_frequency_factor) {
    Fail("{}: high_freq_factor: got {}, expected more than low_freq_factor {}", keys.where(),
         rotary.high_frequency_factor, rotary.low_frequency_factor);
  }
}

}  // namespace

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

double YarnAttentionFactor(double factor, double m) { return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1.0; }

RotaryConfig ReadRotary(const ConfigKeys& keys, int max_positions) {
  RotaryConfig rotary;
  rotary.theta = keys.Positive("rope_theta", rotary.theta);
  for (const char* key : {"rope_parameters", "rope_scaling"}) {  // new and old name, as transformers reads both
    if (keys.Has(key)) return ReadRotaryObject(keys.Object(key), max_positions, rotary.theta);
  }
  return rotary;
}

RotaryConfig ReadRotaryObject(const ConfigKeys& parameters, int max_positions, double theta) {
  for (const char* by_layer : {"full_attention", "sliding_attention"}) parameters.Refuse(by_layer);
  RotaryConfig rotary{.theta = parameters.Positive("rope_theta", theta)};
  ReadScaling(parameters, max_positions, rotary);
  return rotary;
}

RotaryConfig::Layout ReadRotaryLayout(const ConfigKeys& keys) {
  const std::string layout = keys.Text("rotary_layout");
  if (layout == "half-split") return RotaryConfig::Layout::kHalfSplit;
  if (layout == "interleaved") return RotaryConfig::Layout::kInterleaved;
  Fail("{}: rotary_layout: got '{}', expected half-split or interleaved", keys.where(), layout);
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
