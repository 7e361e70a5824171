// SPDX-License-Identifier: Apache-2.0
// Names that architectures share, the table of architectures, the translation of names, and the public look-ups.
#include "quant/interchange/gguf/architecture.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/file/dtype.h"

namespace tare::gguf {
namespace {

constexpr NamePair kOutsideLayers[]{{"token_embd.weight", "model.embed_tokens.weight"},
                                    {"output_norm.weight", "model.norm.weight"},
                                    {"output.weight", "lm_head.weight"}};

constexpr NamePair kAttention[]{{"attn_q", "self_attn.q_proj"},
                                {"attn_k", "self_attn.k_proj"},
                                {"attn_v", "self_attn.v_proj"},
                                {"attn_output", "self_attn.o_proj"}};
constexpr NamePair kFeedForward[]{
    {"ffn_gate", "mlp.gate_proj"}, {"ffn_up", "mlp.up_proj"}, {"ffn_down", "mlp.down_proj"}};
constexpr NamePair kFused[]{{"attn_qkv", "self_attn.qkv_proj"},
                            {"attn_output", "self_attn.o_proj"},
                            {"ffn_up", "mlp.gate_up_proj"},
                            {"ffn_down", "mlp.down_proj"}};

constexpr NamePair kNorms[]{{"attn_norm", "input_layernorm"}, {"ffn_norm", "post_attention_layernorm"}};
constexpr NamePair kQkNorms[]{{"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"}};
constexpr NamePair kNormsAfter[]{{"post_attention_norm", "post_attention_layernorm"},
                                 {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr NamePair kPreNorms[]{{"attn_norm", "input_layernorm"}, {"ffn_norm", "pre_feedforward_layernorm"}};

constexpr NamePair kMixtralExperts[]{{"ffn_gate_inp", "block_sparse_moe.gate"},
                                     {"ffn_gate_exps", "block_sparse_moe.experts.{}.w1"},
                                     {"ffn_up_exps", "block_sparse_moe.experts.{}.w3"},
                                     {"ffn_down_exps", "block_sparse_moe.experts.{}.w2"}};
constexpr NamePair kQwen3MoeExperts[]{{"ffn_gate_inp", "mlp.gate"},
                                      {"ffn_gate_exps", "mlp.experts.{}.gate_proj"},
                                      {"ffn_up_exps", "mlp.experts.{}.up_proj"},
                                      {"ffn_down_exps", "mlp.experts.{}.down_proj"}};
constexpr NamePair kGptOssExperts[]{{"ffn_gate_inp", "mlp.router"},
                                    {"ffn_gate_exps", "mlp.experts.{}.gate_up_proj"},
                                    {"ffn_up_exps", "mlp.experts.{}.gate_up_proj"},
                                    {"ffn_down_exps", "mlp.experts.{}.down_proj"}};
constexpr NamePair kGptOssRest[]{{"attn_norm", "input_layernorm"},
                                 {"post_attention_norm", "post_attention_layernorm"},
                                 {"attn_sinks.weight", "self_attn.sinks"}};

constexpr Architecture kArchitectures[]{
    {"llama", "mixtral", "Mixtral", "expert_count", {kAttention, kNorms, kMixtralExperts}, kReordersRows | kExperts},
    {"llama", "llama", "Llama", "", {kAttention, kFeedForward, kNorms}, kReordersRows},
    {"qwen2", "qwen2", "Qwen2", "", {kAttention, kFeedForward, kNorms}},
    {"qwen3", "qwen3", "Qwen3", "", {kAttention, kFeedForward, kNorms, kQkNorms}},
    {"qwen3moe", "qwen3_moe", "Qwen3Moe", "", {kAttention, kNorms, kQkNorms, kQwen3MoeExperts}, kExperts},
    {"olmo2", "olmo3", "Olmo3", "attention.sliding_window", {kAttention, kFeedForward, kNormsAfter, kQkNorms}, kHead},
    {"olmo2", "olmo2", "Olmo2", "", {kAttention, kFeedForward, kNormsAfter, kQkNorms}, kHead},
    {"gemma3", "gemma3_text", "Gemma3", "", {kAttention, kFeedForward, kPreNorms, kNormsAfter, kQkNorms}, kNormsAddOne},
    {"smollm3", "smollm3", "SmolLM3", "", {kAttention, kFeedForward, kNorms}, kReordersRows},
    {"granite", "granite", "Granite", "", {kAttention, kFeedForward, kNorms}, kReordersRows},
    {"phi3", "phi3", "Phi3", "", {kFused, kNorms}},
    {"gpt-oss", "gpt_oss", "GptOss", "", {kAttention, kGptOssRest, kGptOssExperts}, kHead | kExperts | kInTurns}};

// By the pair whose name in `from` this is, with .weight or .bias behind it unless the pair says so itself.
std::string Translated(const Architecture& a, std::string_view name, std::string_view NamePair::* from,
                       std::string_view NamePair::* to) {
  const auto find = [&](std::string_view text, bool has_kind) -> const NamePair* {
    for (const std::span<const NamePair> names : a.names) {
      const auto found = std::ranges::find(names, text, from);
      if (found != names.end() && found->theirs.contains('.') == has_kind) return &*found;
    }
    return nullptr;
  };
  if (const NamePair* pair = find(name, true)) return std::string(pair->*to);
  for (const std::string_view kind : {".weight", ".bias"}) {
    const std::string_view stem = name.substr(0, name.size() - std::min(name.size(), kind.size()));
    const NamePair* const pair = name.ends_with(kind) ? find(stem, false) : nullptr;
    if (pair != nullptr) return std::string(pair->*to) + std::string(kind);
  }
  return "";
}

// A name of one side by the other's: PREFIX, a layer's number, a dot, a name within a layer; or one outside layers.
std::string Renamed(const Architecture& a, std::string_view name, std::string_view NamePair::* from,
                    std::string_view NamePair::* to) {
  constexpr NamePair kPrefix{"blk.", "model.layers."};
  const auto outside = std::ranges::find(kOutsideLayers, name, from);
  if (outside != std::end(kOutsideLayers)) return std::string((*outside).*to);
  const std::string_view prefix = kPrefix.*from;
  const size_t dot = name.find('.', prefix.size());
  if (!name.starts_with(prefix) || dot == name.npos) return "";
  const std::string_view layer = name.substr(prefix.size(), dot - prefix.size());
  const auto number = ParseNumber<uint32_t>(layer);
  if (!number || Formatted("{}", *number) != layer) return "";
  const std::string translated = Translated(a, name.substr(dot + 1), from, to);
  return translated.empty() ? "" : Formatted("{}{}.{}", kPrefix.*to, layer, translated);
}

std::string ListOf(std::string_view Architecture::* member) {
  std::vector<std::string_view> all;
  for (const Architecture& a : kArchitectures) {
    if (std::ranges::find(all, a.*member) == all.end()) all.push_back(a.*member);
  }
  return Listed(all, ", ", {}, " or ");
}

const Architecture& ArchitectureOf(const Metadata& metadata) {
  if (const auto type = metadata.Text("general.type"); type && *type != "model")
    Fail("{}: general.type: got '{}', expected model", metadata.where(), Shown(*type));
  const std::string_view name = metadata.Text("general.architecture").value_or("");
  for (const Architecture& a : Architectures()) {
    if (a.name != name) continue;
    ArchitectureKeys keys(metadata, name);
    if (a.only_with.empty() || keys.Number(a.only_with).value_or(0) > 0) return a;
  }
  Fail("{}: general.architecture: got '{}', expected {}", metadata.where(), Shown(name), ArchitecturesText());
}

const Tensor& Embedding(std::span<const Tensor> tensors, const std::string& where) {
  const Tensor* const embedding = FindTensor(tensors, "token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2)
    Fail("{}: tensor 'token_embd.weight': got {}, expected a matrix", where,
         embedding == nullptr ? "nothing" : ShapeText(embedding->shape));
  return *embedding;
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

// How many channels of a head turn; phi3 alone may have fewer than all.
void AddRotated(const Architecture& a, int64_t head_dim, ArchitectureKeys& keys, Json& config) {
  constexpr std::string_view kChannels = "rope.dimension_count";
  if (a.family != "phi3") return keys.Expect(kChannels, head_dim, "the width of a head (others are not supported)");
  const int64_t channels = keys.Number(kChannels).value_or(head_dim);
  double share = static_cast<double>(channels) / static_cast<double>(head_dim);
  // Whoever reads it cuts off its product with the width.
  if (static_cast<int64_t>(static_cast<double>(head_dim) * share) < channels) share = std::nextafter(share, 2.0);
  config["partial_rotary_factor"] = share;
}

std::string ConfigOf(const Architecture& a, const Metadata& metadata, std::span<const Tensor> tensors) {
  ArchitectureKeys keys(metadata, a.name);
  const Tensor& embedding = Embedding(tensors, metadata.where());
  const auto has = [&](const char* tensor) { return FindTensor(tensors, tensor) != nullptr; };
  Json config{{"model_type", a.family}, {"architectures", {std::string(a.transformers) + "ForCausalLM"}}};
  const int64_t heads = keys.Need("attention.head_count"), hidden = keys.Need("embedding_length");
  const int64_t head_dim = keys.Number("attention.key_length").value_or(hidden / heads);
  keys.Expect("vocab_size", embedding.shape[0], "the rows of token_embd.weight");
  keys.Expect("attention.value_length", head_dim, "the width of keys (others are not supported)");
  if (!keys.Flag("attention.causal").value_or(true))
    Fail("{}: {}: got false, expected true", metadata.where(), keys.Name("attention.causal"));
  config["vocab_size"] = embedding.shape[0];
  config["hidden_size"] = hidden;
  config["intermediate_size"] = keys.Need("feed_forward_length");
  config["num_hidden_layers"] = keys.Need("block_count");
  config["num_attention_heads"] = heads;
  config["num_key_value_heads"] = keys.Number("attention.head_count_kv").value_or(heads);
  config["head_dim"] = head_dim;
  config["max_position_embeddings"] = keys.Need("context_length");
  config["rms_norm_eps"] = keys.Real("attention.layer_norm_rms_epsilon").value_or(1e-6);
  config[a.Has(kNormsAddOne) ? "hidden_activation" : "hidden_act"] = a.Has(kNormsAddOne) ? "gelu_pytorch_tanh" : "silu";
  config["tie_word_embeddings"] = !has("output.weight");
  if (has("blk.0.attn_q.bias") || a.family == "gpt_oss") config["attention_bias"] = has("blk.0.attn_q.bias");
  if (has("blk.0.ffn_up.bias")) config["mlp_bias"] = true;
  AddRotated(a, head_dim, keys, config);
  AddRotary(a, tensors, keys, config);
  AddFamilyKeys(a, keys, config);
  keys.CheckAllUsed();
  AddTokens(metadata, config);
  return config.dump(2) + "\n";
}

struct HeadCounts {
  int64_t queries, keys;
};

MappedTensor Mapped(const Architecture& a, const Tensor& tensor, HeadCounts heads, const std::string& where) {
  MappedTensor mapped{.tensor = &tensor, .shape = tensor.shape};
  const bool is_query = tensor.name.contains(".attn_q."), is_key = tensor.name.contains(".attn_k.");
  if (a.Has(kReordersRows) && (is_query || is_key)) {
    mapped.rotated_heads = is_query ? heads.queries : heads.keys;
    if (mapped.rotated_heads == 0 || tensor.shape[0] % (2 * mapped.rotated_heads) != 0)
      Fail("{}: tensor '{}': got {} rows, expected a multiple of twice the {} heads", where, tensor.name,
           tensor.shape[0], mapped.rotated_heads);
  }
  if (a.Has(kNormsAddOne) && tensor.name.ends_with("norm.weight")) mapped.added = -1;
  return mapped;
}

constexpr std::string_view kGate = ".ffn_gate_exps.", kUp = ".ffn_up_exps.";

std::string Replaced(std::string_view name, std::string_view from, std::string_view to) {
  std::string other(name);
  return other.replace(other.find(from), from.size(), to);
}

const Tensor& Beside(const Tensor& tensor, const std::string& name, const TensorsByName& tensors,
                     const std::string& where) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) Fail("{}: tensor '{}': missing, expected beside '{}'", where, name, tensor.name);
  const Tensor& other = *found->second;
  if (other.shape != tensor.shape || other.type != tensor.type)
    Fail("{}: tensor '{}': got {} of shape {}, expected {} of shape {} as '{}'", where, name, other.type->name,
         ShapeText(other.shape), tensor.type->name, ShapeText(tensor.shape), tensor.name);
  return other;
}

}  // namespace

std::span<const Architecture> Architectures() { return kArchitectures; }

const Architecture* ArchitectureOfFamily(std::string_view family) {
  return FindIn(kArchitectures, family, &Architecture::family);
}

std::string ArchitecturesText() { return ListOf(&Architecture::name); }
std::string FamiliesText() { return ListOf(&Architecture::family); }

std::string CheckpointName(const Architecture& a, std::string_view name) {
  return Renamed(a, name, &NamePair::theirs, &NamePair::ours);
}

std::string FileName(const Architecture& a, std::string_view name) {
  return Renamed(a, name, &NamePair::ours, &NamePair::theirs);
}

int64_t RowOfNeighbours(int64_t row, int64_t width) {
  const int64_t in_head = row % width;
  return row - in_head + in_head % (width / 2) * 2 + in_head / (width / 2);
}

MappedTensor::FileRow MappedTensor::Row(int64_t row) const {
  if (in_turns != nullptr) return {row % 2 == 0 ? tensor : in_turns, first_row + row / 2};
  return {tensor, first_row + (rotated_heads == 0 ? row : RowOfNeighbours(row, shape[0] / rotated_heads))};
}

int64_t MappedTensor::RowBytes() const {
  const int64_t values = std::reduce(shape.begin() + 1, shape.end(), int64_t{1}, std::multiplies());
  return values / tensor->type->values * tensor->type->bytes;
}

std::span<const std::byte> MappedTensor::RowsIn(const Tensor& of) const {
  const int64_t rows = in_turns != nullptr ? shape[0] / 2 : shape[0];
  return of.bytes.subspan(static_cast<size_t>(first_row * RowBytes()), static_cast<size_t>(rows * RowBytes()));
}

std::string UpOfGate(std::string_view gate) { return Replaced(gate, kGate, kUp); }

std::string NameOfExpert(std::string_view pattern, int64_t expert) {
  return Replaced(pattern, "{}", std::to_string(expert));
}

void AddExpertTensors(const Architecture& a, const Tensor& tensor, std::string_view name, const TensorsByName& tensors,
                      int64_t experts, const std::string& where, std::map<std::string, MappedTensor, std::less<>>& to) {
  const bool is_weight = name.ends_with(".weight");
  if (tensor.shape.size() != (is_weight ? 3 : 2) || tensor.shape[0] != experts)
    Fail("{}: tensor '{}': got shape {}, expected {} of {} experts", where, tensor.name, ShapeText(tensor.shape),
         is_weight ? "matrices" : "vectors", experts);
  MappedTensor mapped{.tensor = &tensor, .shape = {tensor.shape.begin() + 1, tensor.shape.end()}};
  const int64_t rows = mapped.shape[0];
  if (a.Has(kInTurns) && tensor.name.contains(kUp)) {
    Beside(tensor, Replaced(tensor.name, kUp, kGate), tensors, where);  // which adds it
    return;
  }
  if (a.Has(kInTurns) && tensor.name.contains(kGate)) {
    mapped.in_turns = &Beside(tensor, UpOfGate(tensor.name), tensors, where);
    mapped.shape[0] *= 2;
  }
  for (int64_t expert = 0; expert < experts; ++expert) {
    mapped.first_row = expert * rows;
    to.emplace(NameOfExpert(name, expert), mapped);
  }
}

MappedModel MapModel(const Metadata& metadata, std::span<const Tensor> tensors) {
  const Architecture& a = ArchitectureOf(metadata);
  MappedModel model{.config = ConfigOf(a, metadata, tensors), .tensors = {}};
  ArchitectureKeys keys(metadata, a.name);
  const int64_t experts = keys.Number("expert_count").value_or(0), queries = keys.Need("attention.head_count");
  const HeadCounts heads{queries, keys.Number("attention.head_count_kv").value_or(queries)};
  TensorsByName by_name;
  for (const Tensor& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  for (const Tensor& tensor : tensors) {
    // Rotary frequencies: in config.json, or computed again.
    if (IsRotary(a, tensor.name) || tensor.name.ends_with(".attn_rot_embd")) continue;
    const std::string name = CheckpointName(a, tensor.name);
    if (name.empty())
      Fail("{}: tensor '{}': is no part of the {} models that Tare knows", metadata.where(), tensor.name, a.name);
    if (name.contains("{}"))
      AddExpertTensors(a, tensor, name, by_name, experts, metadata.where(), model.tensors);
    else
      model.tensors.emplace(name, Mapped(a, tensor, heads, metadata.where()));
  }
  return model;
}

}  // namespace tare::gguf
