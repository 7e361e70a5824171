// SPDX-License-Identifier: Apache-2.0
// Names that architectures share, the table of architectures, the translation of names, and the public look-ups.
#include "quant/interchange/gguf/architecture_table.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "quant/base/find_in.h"
#include "quant/base/message.h"

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
constexpr NamePair kNormsAround[]{{"attn_norm", "input_layernorm"},
                                  {"post_attention_norm", "post_attention_layernorm"},
                                  {"ffn_norm", "pre_feedforward_layernorm"},
                                  {"post_ffw_norm", "post_feedforward_layernorm"}};

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
constexpr NamePair kGptOssOthers[]{{"attn_norm", "input_layernorm"},
                                   {"post_attention_norm", "post_attention_layernorm"},
                                   {"attn_sinks.weight", "self_attn.sinks"}};

constexpr Architecture kArchitectures[]{
    {.name = "llama",
     .family = "mixtral",
     .transformers = "MixtralForCausalLM",
     .only_with = "expert_count",
     .names = {kAttention, kNorms, kMixtralExperts},
     .rotates_neighbours = true,
     .has_experts = true},
    {.name = "llama",
     .family = "llama",
     .transformers = "LlamaForCausalLM",
     .names = {kAttention, kFeedForward, kNorms},
     .rotates_neighbours = true},
    {.name = "qwen2",
     .family = "qwen2",
     .transformers = "Qwen2ForCausalLM",
     .names = {kAttention, kFeedForward, kNorms}},
    {.name = "qwen3",
     .family = "qwen3",
     .transformers = "Qwen3ForCausalLM",
     .names = {kAttention, kFeedForward, kNorms, kQkNorms}},
    {.name = "qwen3moe",
     .family = "qwen3_moe",
     .transformers = "Qwen3MoeForCausalLM",
     .names = {kAttention, kNorms, kQkNorms, kQwen3MoeExperts},
     .has_experts = true},
    {.name = "olmo2",
     .family = "olmo3",
     .transformers = "Olmo3ForCausalLM",
     .only_with = "attention.sliding_window",
     .names = {kAttention, kFeedForward, kNormsAfter, kQkNorms},
     .needs_head = true},
    {.name = "olmo2",
     .family = "olmo2",
     .transformers = "Olmo2ForCausalLM",
     .names = {kAttention, kFeedForward, kNormsAfter, kQkNorms},
     .needs_head = true},
    {.name = "gemma3",
     .family = "gemma3_text",
     .transformers = "Gemma3ForCausalLM",
     .names = {kAttention, kFeedForward, kNormsAround, kQkNorms},
     .norms_add_one = true},
    {.name = "smollm3",
     .family = "smollm3",
     .transformers = "SmolLM3ForCausalLM",
     .names = {kAttention, kFeedForward, kNorms},
     .rotates_neighbours = true},
    {.name = "granite",
     .family = "granite",
     .transformers = "GraniteForCausalLM",
     .names = {kAttention, kFeedForward, kNorms},
     .rotates_neighbours = true},
    {.name = "phi3", .family = "phi3", .transformers = "Phi3ForCausalLM", .names = {kFused, kNorms}},
    {.name = "gpt-oss",
     .family = "gpt_oss",
     .transformers = "GptOssForCausalLM",
     .names = {kAttention, kGptOssOthers, kGptOssExperts},
     .needs_head = true,
     .has_experts = true,
     .gate_up_in_turns = true}};

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

// PREFIX, a layer's number, a dot, a name.
struct LayerTensorName {
  std::string_view layer, name;
};
std::optional<LayerTensorName> InLayer(std::string_view name, std::string_view prefix) {
  const size_t dot = name.find('.', prefix.size());
  if (!name.starts_with(prefix) || dot == name.npos) return std::nullopt;
  const LayerTensorName parts{name.substr(prefix.size(), dot - prefix.size()), name.substr(dot + 1)};
  const auto number = ParseNumber<uint32_t>(parts.layer);
  return number && Formatted("{}", *number) == parts.layer ? std::optional(parts) : std::nullopt;
}

std::string ListOf(std::string_view Architecture::* member) {
  std::vector<std::string_view> all;
  for (const Architecture& a : kArchitectures) {
    if (std::ranges::find(all, a.*member) == all.end()) all.push_back(a.*member);
  }
  return Listed(all, ", ", {}, " or ");
}

}  // namespace

std::span<const Architecture> Architectures() { return kArchitectures; }

const Architecture* ArchitectureOfFamily(std::string_view family) {
  return FindIn(kArchitectures, family, &Architecture::family);
}

std::string ArchitecturesText() { return ListOf(&Architecture::name); }
std::string FamiliesText() { return ListOf(&Architecture::family); }

std::string CheckpointName(const Architecture& a, std::string_view name) {
  const auto outside = std::ranges::find(kOutsideLayers, name, &NamePair::theirs);
  if (outside != std::end(kOutsideLayers)) return std::string(outside->ours);
  const std::optional<LayerTensorName> parts = InLayer(name, "blk.");
  const std::string ours = parts ? Translated(a, parts->name, &NamePair::theirs, &NamePair::ours) : "";
  return ours.empty() ? "" : Formatted("model.layers.{}.{}", parts->layer, ours);
}

std::string FileName(const Architecture& a, std::string_view name) {
  const auto outside = std::ranges::find(kOutsideLayers, name, &NamePair::ours);
  if (outside != std::end(kOutsideLayers)) return std::string(outside->theirs);
  const std::optional<LayerTensorName> parts = InLayer(name, "model.layers.");
  const std::string theirs = parts ? Translated(a, parts->name, &NamePair::ours, &NamePair::theirs) : "";
  return theirs.empty() ? "" : Formatted("blk.{}.{}", parts->layer, theirs);
}

int64_t RowOfNeighbours(int64_t row, int64_t width) {
  const int64_t in_head = row % width;
  return row - in_head + in_head % (width / 2) * 2 + in_head / (width / 2);
}

}  // namespace tare::gguf
