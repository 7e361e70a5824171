// SPDX-License-Identifier: Apache-2.0
#include "experiments/export/gguf/metadata.h"

#include <algorithm>
#include <cmath>

namespace tare {
namespace {

// llama3's and longrope's divisors are tensors.
void AddRotaryKeys(const RotaryConfig& rotary, const std::string& prefix, gguf::MetadataWriter& out) {
  using Type = RotaryConfig::Type;
  const std::string scaling = prefix + "rope.scaling.";
  out.Real(prefix + "rope.freq_base", rotary.theta);
  if (rotary.type == Type::kLinear || rotary.type == Type::kYarn) {
    out.Text(scaling + "type", Name(rotary.type));
    out.Real(scaling + "factor", rotary.factor);
  }
  if (rotary.type == Type::kYarn || rotary.type == Type::kLongRope)
    out.Number(scaling + "original_context_length", static_cast<int64_t>(rotary.original_positions));
  if (rotary.type == Type::kLongRope) out.Real(scaling + "attn_factor", rotary.attention_factor);
  if (rotary.type != Type::kYarn) return;
  // llama.cpp multiplies its own factor, of the same formula, by this.
  const double usual = YarnAttentionFactor(rotary.factor);
  if (rotary.attention_factor != usual) out.Real(scaling + "attn_factor", rotary.attention_factor / usual);
  out.Flag(scaling + "yarn_truncate", rotary.truncate);
  out.Real(scaling + "yarn_beta_fast", rotary.fast_rotations);
  out.Real(scaling + "yarn_beta_slow", rotary.slow_rotations);
}

void AddExpertKeys(const ModelConfig& c, const std::string& prefix, gguf::MetadataWriter& out) {
  out.Number(prefix + "expert_count", c.experts);
  out.Number(prefix + "expert_used_count", c.chosen_experts);
  out.Number(prefix + "expert_feed_forward_length", c.ffn);
}

// Which layers have a window is fixed in llama.cpp but for olmo3.
void AddWindowKeys(const ModelConfig& c, const std::string& prefix, gguf::MetadataWriter& out) {
  const int window = c.windows.empty() ? 0 : *std::ranges::max_element(c.windows);
  if (window > 0) out.Number(prefix + "attention.sliding_window", window);
  if (c.family != "olmo3") return;
  std::vector<bool> slides;
  for (const int of_layer : c.windows) slides.push_back(of_layer > 0);
  out.Flags(prefix + "attention.sliding_window_pattern", slides);
}

void AddGraniteKeys(const ModelConfig& c, const std::string& prefix, gguf::MetadataWriter& out) {
  out.Real(prefix + "attention.scale", *c.attention_scale);
  out.Real(prefix + "embedding_scale", c.embedding_scale);
  out.Real(prefix + "residual_scale", c.residual_scale);
  out.Real(prefix + "logit_scale", c.logit_divisor);
}

}  // namespace

void AddModelKeys(const ModelConfig& c, const gguf::Architecture& architecture, gguf::MetadataWriter& out) {
  const std::string prefix = std::string(architecture.name) + ".";
  const std::pair<const char*, int64_t> numbers[]{{"vocab_size", c.vocabulary},
                                                  {"context_length", c.max_positions},
                                                  {"embedding_length", c.hidden},
                                                  {"block_count", c.layers},
                                                  {"feed_forward_length", c.ffn},
                                                  {"attention.head_count", c.heads},
                                                  {"attention.head_count_kv", c.kv_heads},
                                                  {"attention.key_length", c.head_dim},
                                                  {"attention.value_length", c.head_dim},
                                                  {"rope.dimension_count", c.rotary.Channels(c.head_dim)}};
  for (const auto& [key, number] : numbers) out.Number(prefix + key, number);
  out.Real(prefix + "attention.layer_norm_rms_epsilon", c.norm_eps);
  AddRotaryKeys(c.rotary, prefix, out);
  if (architecture.has_experts) AddExpertKeys(c, prefix, out);
  AddWindowKeys(c, prefix, out);
  if (c.family == "granite") AddGraniteKeys(c, prefix, out);
  if (c.logit_cap) out.Real(prefix + "final_logit_softcapping", *c.logit_cap);
  if (c.family == "gemma3_text") out.Real(prefix + "rope.freq_base_swa", c.window_rotary->theta);
}

}  // namespace tare
