// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/config.h"

#include <cmath>
#include <initializer_list>
#include <limits>

#include <nlohmann/json.hpp>

#include "quant/base/error.h"
#include "quant/file/checkpoint.h"
#include "quant/file/strict_json.h"

namespace tare {
namespace {

using Json = nlohmann::json;

// Typed reading of one JSON object, with the place in every message.
class Keys {
 public:
  Keys(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  bool Has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }

  int Integer(const char* key, int smallest) const {
    const Json& value = Get(key);
    if (!value.is_number_integer()) Wrong(key, "an integer");
    const auto number = value.get<int64_t>();
    if (number < smallest || number > std::numeric_limits<int32_t>::max()) {
      Fail("{}: {}: got {}, expected {} to {}", where_, key, value.dump(), smallest,
           std::numeric_limits<int32_t>::max());
    }
    return static_cast<int>(number);
  }
  int Integer(const char* key, int smallest, int otherwise) const {
    return Has(key) ? Integer(key, smallest) : otherwise;
  }

  double Positive(const char* key) const {
    const Json& value = Get(key);
    if (!value.is_number() || !(value.get<double>() > 0) || !std::isfinite(value.get<double>()))
      Wrong(key, "a positive number");
    return value.get<double>();
  }
  double Positive(const char* key, double otherwise) const { return Has(key) ? Positive(key) : otherwise; }

  bool Flag(const char* key, bool otherwise) const {
    if (!Has(key)) return otherwise;
    if (!object_[key].is_boolean()) Wrong(key, "true or false");
    return object_[key].get<bool>();
  }

  std::string Text(const char* key) const {
    if (!Get(key).is_string()) Wrong(key, "a string");
    return object_[key].get<std::string>();
  }

  Keys Object(const char* key) const {
    if (!Get(key).is_object()) Wrong(key, "an object");
    return {object_[key], where_ + ": " + key};
  }

  // Refuses a key whose value is anything but null, false, or one of the accepted JSON texts.
  void Refuse(const char* key, std::initializer_list<const char*> accepted = {}) const {
    if (!Has(key)) return;
    const std::string value = object_[key].dump();
    if (value == "false") return;
    for (const char* text : accepted) {
      if (value == text) return;
    }
    Fail("{}: {}: {} is not supported", where_, key, value);
  }

  const std::string& where() const { return where_; }

 private:
  const Json& Get(const char* key) const {
    if (!Has(key)) Fail("{}: key '{}' is missing, and the model cannot be built without it", where_, key);
    return object_[key];
  }
  [[noreturn]] void Wrong(const char* key, const char* expected) const {
    Fail("{}: {}: got {}, expected {}", where_, key, object_[key].dump(), expected);
  }

  const Json& object_;
  std::string where_;
};

RotaryConfig::Type ParseRotaryType(const Keys& keys) {
  const char* key = keys.Has("rope_type") ? "rope_type" : "type";  // `type`: before transformers 4.43
  const std::string type = keys.Has(key) ? keys.Text(key) : "default";
  if (type == "default") return RotaryConfig::Type::kDefault;
  if (type == "linear") return RotaryConfig::Type::kLinear;
  if (type == "llama3") return RotaryConfig::Type::kLlama3;
  Fail("{}: {}: got '{}', expected default, linear or llama3 (others are not supported)", keys.where(), key, type);
}

void ReadScaling(const Keys& keys, int max_positions, RotaryConfig& rotary) {
  rotary.type = ParseRotaryType(keys);
  keys.Refuse("partial_rotary_factor", {"1", "1.0"});
  if (rotary.type == RotaryConfig::Type::kDefault) return;
  rotary.factor = keys.Positive("factor");
  if (rotary.type == RotaryConfig::Type::kLinear) return;
  rotary.low_frequency_factor = keys.Positive("low_freq_factor");
  rotary.high_frequency_factor = keys.Positive("high_freq_factor");
  rotary.original_positions = keys.Positive("original_max_position_embeddings", max_positions);
  if (rotary.high_frequency_factor <= rotary.low_frequency_factor) {
    Fail("{}: high_freq_factor: got {}, expected more than low_freq_factor {}", keys.where(),
         rotary.high_frequency_factor, rotary.low_frequency_factor);
  }
}

RotaryConfig ReadRotary(const Keys& keys, int max_positions) {
  RotaryConfig rotary;
  rotary.theta = keys.Positive("rope_theta", rotary.theta);
  if (keys.Has("rope_parameters")) {
    const Keys parameters = keys.Object("rope_parameters");
    rotary.theta = parameters.Positive("rope_theta", rotary.theta);
    ReadScaling(parameters, max_positions, rotary);
  } else if (keys.Has("rope_scaling")) {
    ReadScaling(keys.Object("rope_scaling"), max_positions, rotary);
  }
  return rotary;
}

void RefuseUnsupported(const Keys& keys) {
  if (keys.Has("hidden_act")) {
    const std::string activation = keys.Text("hidden_act");
    if (activation != "silu" && activation != "swish") {
      Fail("{}: hidden_act: got '{}', expected silu (others are not supported)", keys.where(), activation);
    }
  }
  keys.Refuse("quantization_config");
  keys.Refuse("sliding_window");
  keys.Refuse("partial_rotary_factor", {"1", "1.0"});
  keys.Refuse("pretraining_tp", {"1"});
}

void CheckHeads(const ModelConfig& c, const std::string& where) {
  if (c.heads % c.kv_heads != 0) {
    Fail("{}: num_attention_heads: got {}, expected a multiple of num_key_value_heads {}", where, c.heads, c.kv_heads);
  }
  if (c.Differential() && c.heads % 2 != 0) {
    Fail("{}: num_attention_heads: got {}, expected an even number: a differential head has two maps", where, c.heads);
  }
  if (c.head_dim % 2 != 0)
    Fail("{}: head_dim: got {}, expected an even number: rotary embedding turns pairs", where, c.head_dim);
  for (const int64_t width : {int64_t{c.heads} * c.head_dim, int64_t{c.kv_heads} * c.head_dim}) {
    if (width > std::numeric_limits<int32_t>::max()) Fail("{}: heads x head_dim: got {}, too large", where, width);
  }
}

}  // namespace

ModelConfig ParseConfig(std::string_view text, const std::string& where) {
  const Json json = ParseJson(text, where);
  if (!json.is_object()) Fail("{}: not a JSON object; try saving the checkpoint again", where);
  const Keys keys(json, where);
  ModelConfig c;
  c.family = keys.Text("model_type");
  if (c.family != "llama" && c.family != "diffllama") {
    Fail("{}: model_type: got '{}', expected llama or diffllama", where, c.family);
  }
  RefuseUnsupported(keys);
  c.vocabulary = keys.Integer("vocab_size", 1);
  c.hidden = keys.Integer("hidden_size", 1);
  c.ffn = keys.Integer("intermediate_size", 1);
  c.layers = keys.Integer("num_hidden_layers", 1);
  c.heads = keys.Integer("num_attention_heads", 1);
  c.kv_heads = keys.Integer("num_key_value_heads", 1, c.heads);
  if (!keys.Has("head_dim") && c.hidden % c.heads != 0) {
    Fail("{}: hidden_size: got {}, expected a multiple of num_attention_heads {} where head_dim is not given", where,
         c.hidden, c.heads);
  }
  c.head_dim = keys.Integer("head_dim", 2, c.hidden / c.heads);
  c.norm_eps = static_cast<float>(keys.Positive("rms_norm_eps"));
  c.max_positions = keys.Integer("max_position_embeddings", 1, 2048);  // transformers' own default for both families
  c.tied_embeddings = keys.Flag("tie_word_embeddings", false);
  c.attention_bias = keys.Flag("attention_bias", false);
  // transformers' DiffLlama has none, whatever the key says
  c.mlp_bias = !c.Differential() && keys.Flag("mlp_bias", false);
  if (keys.Has("bos_token_id")) c.bos = keys.Integer("bos_token_id", 0);
  c.rotary = ReadRotary(keys, c.max_positions);
  CheckHeads(c, where);
  if (c.bos && *c.bos >= c.vocabulary)
    Fail("{}: bos_token_id: got {}, expected less than vocab_size {}", where, *c.bos, c.vocabulary);
  return c;
}

ModelConfig LoadConfig(const std::filesystem::path& path) {
  const std::optional<std::string> text = CheckpointText(path, "config.json");
  const std::string where = (path / "config.json").string();
  if (!text) Fail("{}: no such file; expected a checkpoint in Hugging Face layout (config.json, *.safetensors)", where);
  return ParseConfig(*text, where);
}

}  // namespace tare
