// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/architecture.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <set>

#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/number.h"
#include "quant/file/dtype.h"
#include "quant/file/json_value.h"
#include "quant/interchange/gguf/architecture_table.h"
#include "quant/interchange/gguf/rotary_factors.h"

namespace tare::gguf {
namespace {

constexpr uint64_t kMost = (uint64_t{1} << 31) - 1;  // of a number in config.json

// The keys of one architecture; it remembers which were asked for.
class Keys {
 public:
  Keys(const Metadata& metadata, std::string_view architecture)
      : metadata_(metadata), prefix_(std::string(architecture) + ".") {}

  std::optional<int64_t> Number(std::string_view key) {
    const std::string name = Used(key);
    const auto found = metadata_.values().find(name);
    if (found == metadata_.values().end() || !std::holds_alternative<Array>(found->second)) {
      const std::optional<uint64_t> value = metadata_.Unsigned(name, kMost);
      return value ? std::optional(static_cast<int64_t>(*value)) : std::nullopt;
    }
    const std::vector<double> by_layer = *metadata_.Reals(name);
    if (by_layer.empty() || std::ranges::adjacent_find(by_layer, std::not_equal_to()) != by_layer.end() ||
        !(by_layer[0] >= 0 && by_layer[0] <= static_cast<double>(kMost)))
      Fail("{}: {}: got numbers that differ by layer, expected one", metadata_.where(), name);
    return static_cast<int64_t>(by_layer[0]);
  }
  int64_t Need(std::string_view key) {
    const std::optional<int64_t> value = Number(key);
    if (!value || *value == 0)
      Fail("{}: {}{}: got {}, expected a positive number; the model cannot be built without it", metadata_.where(),
           prefix_, key, value ? "0" : "nothing");
    return *value;
  }
  std::optional<double> Real(std::string_view key) {
    const std::optional<double> value = metadata_.Real(Used(key));
    // An f32, as the shortest number that is it.
    return value ? ParseNumber<double>(Formatted("{}", static_cast<float>(*value))) : std::nullopt;
  }
  std::optional<bool> Flag(std::string_view key) { return metadata_.Flag(Used(key)); }
  std::optional<std::string_view> Text(std::string_view key) { return metadata_.Text(Used(key)); }
  std::optional<std::vector<double>> Reals(std::string_view key) { return metadata_.Reals(Used(key)); }
  bool IsArray(std::string_view key) const {
    const auto found = metadata_.values().find(prefix_ + std::string(key));
    return found != metadata_.values().end() && std::holds_alternative<Array>(found->second);
  }
  // The key may be missing or have this value.
  void Expect(std::string_view key, int64_t expected, std::string_view why) {
    const std::optional<int64_t> value = Number(key);
    if (value && *value != expected)
      Fail("{}: {}{}: got {}, expected {}: {}", metadata_.where(), prefix_, key, *value, expected, why);
  }
  void Ignore(std::string_view key) { Used(key); }
  // All keys of the architecture must have been asked for.
  void CheckAllUsed() const {
    for (const auto& [key, value] : metadata_.values()) {
      if (key.starts_with(prefix_) && !used_.contains(key))
        Fail("{}: {}: is not supported, as it may change what the model computes", metadata_.where(), key);
    }
  }
  const std::string& where() const { return metadata_.where(); }
  const std::string& prefix() const { return prefix_; }

 private:
  std::string Used(std::string_view key) { return *used_.insert(prefix_ + std::string(key)).first; }

  const Metadata& metadata_;
  std::string prefix_;
  std::set<std::string, std::less<>> used_;
};

const Architecture& ArchitectureOf(const Metadata& metadata) {
  if (const auto type = metadata.Text("general.type"); type && *type != "model")
    Fail("{}: general.type: got '{}', expected model", metadata.where(), Shown(*type));
  const std::string_view name = metadata.Text("general.architecture").value_or("");
  if (const Architecture* known = FindArchitecture(name)) return *known;
  Fail("{}: general.architecture: got '{}', expected {}", metadata.where(), Shown(name), ArchitecturesText());
}

const Tensor* FindTensor(std::span<const Tensor> tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &Tensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

const Tensor& Embedding(std::span<const Tensor> tensors, const std::string& where) {
  const Tensor* const embedding = FindTensor(tensors, "token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2)
    Fail("{}: tensor 'token_embd.weight': got {}, expected a matrix", where,
         embedding == nullptr ? "nothing" : ShapeText(embedding->shape));
  return *embedding;
}

// Of llama3's rotary positions.
Json ScalingOf(const Tensor& divisors, double theta, const std::string& where) {
  if (divisors.type->type != TensorType::kF32 || divisors.shape.size() != 1)
    Fail("{}: tensor '{}': got {} of shape {}, expected a vector of F32", where, divisors.name, divisors.type->name,
         ShapeText(divisors.shape));
  std::vector<float> values(static_cast<size_t>(divisors.shape[0]));
  std::memcpy(values.data(), divisors.bytes.data(), divisors.bytes.size());
  const std::optional<RotaryFactors> found = FindRotaryFactors(values, theta);
  if (!found)
    Fail(
        "{}: tensor '{}': got divisors that are not those of llama3's rotary scaling, expected these (others are not "
        "supported)",
        where, divisors.name);
  return {{"rope_type", "llama3"},
          {"factor", found->factor},
          {"low_freq_factor", found->low},
          {"high_freq_factor", found->high},
          {"original_max_position_embeddings", found->original}};
}

void AddRotary(Keys& keys, std::span<const Tensor> tensors, Json& config) {
  const double theta = keys.Real("rope.freq_base").value_or(10000);
  config["rope_theta"] = theta;
  const std::string_view type = keys.Text("rope.scaling.type").value_or("linear");
  if (type != "none" && type != "linear")
    Fail("{}: {}rope.scaling.type: got '{}', expected none or linear (others are not supported)", keys.where(),
         keys.prefix(), Shown(type));
  const double older = keys.Real("rope.scale_linear").value_or(1);
  const double factor = keys.Real("rope.scaling.factor").value_or(older);
  keys.Ignore("rope.scaling.original_context_length");
  keys.Ignore("rope.scaling.finetuned");
  if (type == "linear" && factor != 1 && factor != 0)
    config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", factor}};
  const Tensor* const divisors = FindTensor(tensors, "rope_freqs.weight");
  if (divisors == nullptr) return;
  if (config.contains("rope_scaling"))
    Fail("{}: tensor '{}': got rotary scaling by this and by {}rope.scaling.factor, expected one of them", keys.where(),
         divisors->name, keys.prefix());
  config["rope_scaling"] = ScalingOf(*divisors, theta, keys.where());
}

// gemma3's keys. llama.cpp has the number of layers in a period, and the scale of queries by the number of layers.
void AddGemma(Keys& keys, int64_t head_dim, Json& config) {
  constexpr int64_t kLayersOf27B = 62;
  const int64_t layers = config["num_hidden_layers"], hidden = config["hidden_size"];
  config["query_pre_attn_scalar"] =
      layers == kLayersOf27B ? hidden / config["num_attention_heads"].get<int64_t>() : head_dim;
  if (const auto cap = keys.Real("final_logit_softcapping")) config["final_logit_softcapping"] = *cap;
  config["rope_local_base_freq"] = keys.Real("rope.freq_base_swa").value_or(10000);
  const std::optional<int64_t> window = keys.Number("attention.sliding_window");
  if (!window || *window == 0) {
    config["sliding_window_pattern"] = 1;
  } else {
    config["sliding_window"] = *window;
    config["sliding_window_pattern"] = 6;
  }
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  if (!keys.IsArray(kPattern)) {
    if (const auto period = keys.Number(kPattern); period && window) config["sliding_window_pattern"] = *period;
    return;
  }
  const std::optional<std::vector<double>> by_layer = keys.Reals(kPattern);
  for (const double slides : *by_layer)
    config["layer_types"].push_back(slides != 0 ? "sliding_attention" : "full_attention");
}

// Ids of one key each; those that the file has.
Json IdsOf(const Metadata& metadata, std::initializer_list<std::string_view> keys, int64_t vocabulary) {
  Json ids = Json::array();
  for (const std::string_view key : keys) {
    const auto id = metadata.Unsigned(key, 0xffffffffu);
    if (id && static_cast<int64_t>(*id) < vocabulary && std::ranges::find(ids, Json(*id)) == ids.end())
      ids.push_back(*id);
  }
  return ids;
}

void AddTokens(const Metadata& metadata, Json& config) {
  const int64_t vocabulary = config["vocab_size"];
  const Json bos = IdsOf(metadata, {"tokenizer.ggml.bos_token_id"}, vocabulary);
  if (!bos.empty()) config["bos_token_id"] = bos[0];
  const Json ends =
      IdsOf(metadata, {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"},
            vocabulary);
  if (!ends.empty()) config["eos_token_id"] = ends;
}

std::string ConfigOf(const Architecture& a, const Metadata& metadata, std::span<const Tensor> tensors) {
  Keys keys(metadata, a.name);
  const Tensor& embedding = Embedding(tensors, metadata.where());
  Json config{{"model_type", a.family}, {"architectures", {a.transformers}}};
  const int64_t heads = keys.Need("attention.head_count"), hidden = keys.Need("embedding_length");
  const int64_t head_dim = keys.Number("attention.key_length").value_or(hidden / heads);
  keys.Expect("vocab_size", embedding.shape[0], "the rows of token_embd.weight");
  keys.Expect("attention.value_length", head_dim, "the width of keys (others are not supported)");
  keys.Expect("rope.dimension_count", head_dim, "the width of a head (others are not supported)");
  keys.Expect("expert_count", 0, "experts are not supported");
  keys.Expect("expert_used_count", 0, "experts are not supported");
  if (!keys.Flag("attention.causal").value_or(true))
    Fail("{}: {}.attention.causal: got false, expected true", metadata.where(), a.name);
  config["vocab_size"] = embedding.shape[0];
  config["hidden_size"] = hidden;
  config["intermediate_size"] = keys.Need("feed_forward_length");
  config["num_hidden_layers"] = keys.Need("block_count");
  config["num_attention_heads"] = heads;
  config["num_key_value_heads"] = keys.Number("attention.head_count_kv").value_or(heads);
  config["head_dim"] = head_dim;
  config["max_position_embeddings"] = keys.Need("context_length");
  config["rms_norm_eps"] = keys.Real("attention.layer_norm_rms_epsilon").value_or(1e-6);
  config[a.norms_add_one ? "hidden_activation" : "hidden_act"] = a.norms_add_one ? "gelu_pytorch_tanh" : "silu";
  config["tie_word_embeddings"] = FindTensor(tensors, "output.weight") == nullptr;
  config["attention_bias"] = FindTensor(tensors, "blk.0.attn_q.bias") != nullptr;
  config["mlp_bias"] = FindTensor(tensors, "blk.0.ffn_up.bias") != nullptr;
  AddRotary(keys, tensors, config);
  if (a.family == "gemma3_text") AddGemma(keys, head_dim, config);
  keys.CheckAllUsed();
  AddTokens(metadata, config);
  return config.dump(2) + "\n";
}

MappedTensor Mapped(const Architecture& a, const Tensor& tensor, const Metadata& metadata) {
  MappedTensor mapped{.tensor = &tensor};
  Keys keys(metadata, a.name);
  const bool is_query = tensor.name.contains(".attn_q."), is_key = tensor.name.contains(".attn_k.");
  if (a.rotates_neighbours && (is_query || is_key)) {
    const int64_t heads = keys.Need("attention.head_count");
    mapped.rotated_heads = is_query ? heads : keys.Number("attention.head_count_kv").value_or(heads);
    if (mapped.rotated_heads == 0 || tensor.shape[0] % (2 * mapped.rotated_heads) != 0)
      Fail("{}: tensor '{}': got {} rows, expected a multiple of twice the {} heads", metadata.where(), tensor.name,
           tensor.shape[0], mapped.rotated_heads);
  }
  if (a.norms_add_one && tensor.name.ends_with("norm.weight")) mapped.added = -1;
  return mapped;
}

}  // namespace

int64_t MappedTensor::FileRow(int64_t row) const {
  return rotated_heads == 0 ? row : RowOfNeighbours(row, tensor->shape[0] / rotated_heads);
}

MappedModel MapModel(const Metadata& metadata, std::span<const Tensor> tensors) {
  const Architecture& a = ArchitectureOf(metadata);
  MappedModel model{.config = ConfigOf(a, metadata, tensors), .tensors = {}};
  for (const Tensor& tensor : tensors) {
    // Rotary frequencies: in config.json, or computed again.
    if (tensor.name == "rope_freqs.weight" || tensor.name.ends_with(".attn_rot_embd")) continue;
    const std::string name = CheckpointName(a, tensor.name);
    if (name.empty())
      Fail("{}: tensor '{}': is no part of the {} models that Tare knows", metadata.where(), tensor.name, a.name);
    model.tensors.emplace(name, Mapped(a, tensor, metadata));
  }
  return model;
}

}  // namespace tare::gguf
