// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/config/read_config.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <span>
#include <vector>

#include "experiments/model/config/config_keys.h"
#include "experiments/model/config/family.h"
#include "quant/base/error.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/json.h"
#include "quant/file/strict_json.h"

namespace tare {
namespace {

constexpr int kMostLayers = 1 << 16;  // some things are kept by layer before the weights say whether there are so many

void CheckHeads(const ModelConfig& c, const std::string& where) {
  if (c.noise_heads == 0 && c.heads % c.kv_heads != 0) {
    Fail("{}: num_attention_heads: got {}, expected a multiple of num_key_value_heads {}", where, c.heads, c.kv_heads);
  }
  for (const int64_t width : {int64_t{c.heads} * c.head_dim, int64_t{c.kv_heads} * c.head_dim}) {
    if (width > std::numeric_limits<int32_t>::max()) Fail("{}: heads x head_dim: got {}, too large", where, width);
  }
}

void CheckPositions(const ModelConfig& c, const std::string& where) {
  if (!c.rotates) return;
  for (const RotaryConfig* rotary : {&c.rotary, c.window_rotary ? &*c.window_rotary : nullptr}) {
    if (rotary == nullptr) continue;
    if (rotary->share != 1 && !FamilyOf(c).rotates_parts)
      Fail("{}: partial_rotary_factor: got {}, expected 1 of a {} model (others are not supported)", where,
           rotary->share, c.family);
    CheckRotary(*rotary, c.head_dim, where);
  }
}

// "; try DIR/a or DIR/b", of the folders in it that have a configuration; at most four.
std::string CheckpointsIn(const std::filesystem::path& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (std::filesystem::is_regular_file(entry.path() / "config.json", error)) found.push_back(entry.path().string());
  }
  std::ranges::sort(found);
  std::string text;
  for (const std::string& one : std::span(found).first(std::min<size_t>(found.size(), 4)))
    text += (text.empty() ? "; try " : " or ") + one;
  return text;
}

}  // namespace

ModelConfig ParseConfig(std::string_view text, const std::string& where) {
  const nlohmann::json json = ParseJson(text, where);
  if (!json.is_object()) Fail("{}: not a JSON object; try saving the checkpoint again", where);
  const ConfigKeys keys(json, where);
  ModelConfig c;
  const std::string type = keys.Text("model_type"), key = where + ": model_type";
  const Family& family = FamilyNamed(type, key);
  c.family = family.name;
  if (family.names.class_row.empty()) c.vocabulary = keys.Integer("vocab_size", 1);
  c.hidden = keys.Integer("hidden_size", 1);
  c.ffn = keys.Integer("intermediate_size", 1);
  c.layers = keys.Integer("num_hidden_layers", 1);
  if (c.layers > kMostLayers) Fail("{}: num_hidden_layers: got {}, expected 1 to {}", where, c.layers, kMostLayers);
  c.heads = keys.Integer("num_attention_heads", 1);
  c.kv_heads = keys.Integer("num_key_value_heads", 1, c.heads);
  if (!keys.Has("head_dim") && c.hidden % c.heads != 0) {
    Fail("{}: hidden_size: got {}, expected a multiple of num_attention_heads {} where head_dim is not given", where,
         c.hidden, c.heads);
  }
  c.head_dim = keys.Integer("head_dim", 2, c.hidden / c.heads);
  c.max_positions = keys.Integer("max_position_embeddings", 1, 2048);  // transformers' own default
  c.tied_embeddings = keys.Flag("tie_word_embeddings", false);
  if (keys.Has("bos_token_id")) c.bos = keys.Integer("bos_token_id", 0);
  keys.Refuse("quantization_config");
  family.read(keys, c);
  CheckHeads(c, where);
  CheckPositions(c, where);
  if (keys.Has("rotary_layout")) c.rotary.layout = ReadRotaryLayout(keys);
  if (c.bos && *c.bos >= c.vocabulary)
    Fail("{}: bos_token_id: got {}, expected less than vocab_size {}", where, *c.bos, c.vocabulary);
  return c;
}

ModelConfig LoadConfig(const std::filesystem::path& path) {
  const std::optional<std::string> text = ModelConfigText(path);
  const std::string where = (path / "config.json").string();
  if (!text)
    Fail("{}: no such file; expected a checkpoint in Hugging Face layout (config.json, *.safetensors){}", where,
         CheckpointsIn(path));
  ModelConfig config = ParseConfig(*text, where);
  if (const Family& family = FamilyOf(config); family.fit != nullptr) family.fit(Checkpoint(path), config);
  return config;
}

}  // namespace tare
