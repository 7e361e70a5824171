// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/architecture_table.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "quant/base/formatted.h"
#include "quant/base/number.h"

namespace tare::gguf {
namespace {

constexpr std::array<Architecture, 5> kArchitectures{
    {{.name = "llama", .family = "llama", .transformers = "LlamaForCausalLM", .rotates_neighbours = true},
     {.name = "qwen2", .family = "qwen2", .transformers = "Qwen2ForCausalLM"},
     {.name = "qwen3", .family = "qwen3", .transformers = "Qwen3ForCausalLM", .has_qk_norms = true},
     {.name = "olmo2",
      .family = "olmo2",
      .transformers = "Olmo2ForCausalLM",
      .has_qk_norms = true,
      .feed_forward_norm = FeedForwardNorm::kNone},
     {.name = "gemma3",
      .family = "gemma3_text",
      .transformers = "Gemma3ForCausalLM",
      .norms_add_one = true,
      .has_qk_norms = true,
      .feed_forward_norm = FeedForwardNorm::kBeforeFeedForward}}};

struct NamePair {
  std::string_view theirs, ours;
};

constexpr NamePair kOutsideLayers[]{{"token_embd.weight", "model.embed_tokens.weight"},
                                    {"output_norm.weight", "model.norm.weight"},
                                    {"output.weight", "lm_head.weight"}};

// Within a layer, without .weight and .bias.
constexpr NamePair kLinearNames[]{{"attn_q", "self_attn.q_proj"}, {"attn_k", "self_attn.k_proj"},
                                  {"attn_v", "self_attn.v_proj"}, {"attn_output", "self_attn.o_proj"},
                                  {"ffn_gate", "mlp.gate_proj"},  {"ffn_up", "mlp.up_proj"},
                                  {"ffn_down", "mlp.down_proj"}};
constexpr std::string_view kNormNames[]{"attn_norm",           "attn_q_norm",   "attn_k_norm",
                                        "post_attention_norm", "post_ffw_norm", "ffn_norm"};

// Empty if the architecture has no such norm.
std::string_view NormName(const Architecture& a, std::string_view name) {
  const bool norms_after = a.feed_forward_norm != FeedForwardNorm::kAfterAttention;
  if (name == "attn_norm" && a.feed_forward_norm != FeedForwardNorm::kNone) return "input_layernorm";
  if (name == "attn_q_norm" && a.has_qk_norms) return "self_attn.q_norm";
  if (name == "attn_k_norm" && a.has_qk_norms) return "self_attn.k_norm";
  if (name == "post_attention_norm" && norms_after) return "post_attention_layernorm";
  if (name == "post_ffw_norm" && norms_after) return "post_feedforward_layernorm";
  if (name == "ffn_norm" && a.feed_forward_norm == FeedForwardNorm::kAfterAttention) return "post_attention_layernorm";
  if (name == "ffn_norm" && a.feed_forward_norm == FeedForwardNorm::kBeforeFeedForward)
    return "pre_feedforward_layernorm";
  return {};
}

std::string_view OursInLayer(const Architecture& a, std::string_view theirs) {
  const auto linear = std::ranges::find(kLinearNames, theirs, &NamePair::theirs);
  return linear != std::end(kLinearNames) ? linear->ours : NormName(a, theirs);
}

std::string_view TheirsInLayer(const Architecture& a, std::string_view ours) {
  const auto linear = std::ranges::find(kLinearNames, ours, &NamePair::ours);
  if (linear != std::end(kLinearNames)) return linear->theirs;
  const auto norm = std::ranges::find(kNormNames, ours, [&](std::string_view theirs) { return NormName(a, theirs); });
  return norm != std::end(kNormNames) ? *norm : std::string_view();
}

// PREFIX, a layer's number, a dot, a name, .weight or .bias.
struct LayerTensorName {
  std::string_view layer, name, kind;
};
std::optional<LayerTensorName> InLayer(std::string_view name, std::string_view prefix) {
  const size_t dot = name.find('.', prefix.size()), end = name.rfind('.');
  if (!name.starts_with(prefix) || dot == name.npos || end <= dot) return std::nullopt;
  const LayerTensorName parts{name.substr(prefix.size(), dot - prefix.size()), name.substr(dot + 1, end - dot - 1),
                              name.substr(end)};
  const auto number = ParseNumber<uint32_t>(parts.layer);
  if (!number || Formatted("{}", *number) != parts.layer) return std::nullopt;
  if (parts.kind != ".weight" && parts.kind != ".bias") return std::nullopt;
  return parts;
}

std::string ListOf(std::string_view Architecture::* member) {
  std::string text;
  for (const Architecture& a : kArchitectures)
    text += (text.empty() ? "" : &a == &kArchitectures.back() ? " or " : ", ") + std::string(a.*member);
  return text;
}

const Architecture* FindBy(std::string_view Architecture::* member, std::string_view text) {
  const auto found = std::ranges::find(kArchitectures, text, member);
  return found == kArchitectures.end() ? nullptr : &*found;
}

}  // namespace

const Architecture* FindArchitecture(std::string_view name) { return FindBy(&Architecture::name, name); }
const Architecture* ArchitectureOfFamily(std::string_view family) { return FindBy(&Architecture::family, family); }
std::string ArchitecturesText() { return ListOf(&Architecture::name); }
std::string FamiliesText() { return ListOf(&Architecture::family); }

std::string CheckpointName(const Architecture& a, std::string_view name) {
  const auto outside = std::ranges::find(kOutsideLayers, name, &NamePair::theirs);
  if (outside != std::end(kOutsideLayers)) return std::string(outside->ours);
  const std::optional<LayerTensorName> parts = InLayer(name, "blk.");
  const std::string_view ours = parts ? OursInLayer(a, parts->name) : std::string_view();
  return ours.empty() ? "" : Formatted("model.layers.{}.{}{}", parts->layer, ours, parts->kind);
}

std::string FileName(const Architecture& a, std::string_view name) {
  const auto outside = std::ranges::find(kOutsideLayers, name, &NamePair::ours);
  if (outside != std::end(kOutsideLayers)) return std::string(outside->theirs);
  const std::optional<LayerTensorName> parts = InLayer(name, "model.layers.");
  const std::string_view theirs = parts ? TheirsInLayer(a, parts->name) : std::string_view();
  return theirs.empty() ? "" : Formatted("blk.{}.{}{}", parts->layer, theirs, parts->kind);
}

int64_t RowOfNeighbours(int64_t row, int64_t width) {
  const int64_t in_head = row % width;
  return row - in_head + in_head % (width / 2) * 2 + in_head / (width / 2);
}

}  // namespace tare::gguf
