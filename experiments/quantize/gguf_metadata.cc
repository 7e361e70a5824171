// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/gguf_metadata.h"

#include <algorithm>
#include <cmath>

#include "experiments/model/family.h"
#include "experiments/text/grammar.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

constexpr int kGemmaPeriod = 6;  // of llama.cpp's gemma3: every sixth layer sees all keys

[[noreturn]] void CannotHold(const std::string& where, const std::string& got, const std::string& expected) {
  Fail("{}: to gguf: got {}, expected {}; a GGUF file cannot hold it", where, got, expected);
}

void CheckRotary(const RotaryConfig& rotary, const std::string& where) {
  if (rotary.layout != RotaryConfig::Layout::kHalfSplit)
    CannotHold(where, "rotary positions of neighbouring channels",
               "those of halves; try tare convert to the model's own family first");
  using Type = RotaryConfig::Type;
  if (rotary.type != Type::kDefault && rotary.type != Type::kLinear && rotary.type != Type::kLlama3)
    CannotHold(where, Formatted("rotary positions of type {}", Name(rotary.type)), "default, linear or llama3");
}

void CheckGemma(const ModelConfig& c, const std::string& where) {
  for (int layer = 0; layer < c.layers; ++layer) {
    if ((c.Window(layer) == 0) != ((layer + 1) % kGemmaPeriod == 0))
      CannotHold(where, Formatted("layer {} {} a window", layer, c.Window(layer) == 0 ? "without" : "with"),
                 "every sixth layer to see all keys and the others a window");
  }
  constexpr int kLayersOf27B = 62;
  const int scalar = c.layers == kLayersOf27B ? c.hidden / c.heads : c.head_dim;
  const float scale = 1.0f / std::sqrt(static_cast<float>(scalar));
  if (c.attention_scale.value_or(scale) != scale)
    CannotHold(where, Formatted("attention logits times {}", *c.attention_scale),
               Formatted("{}, of query_pre_attn_scalar {}", scale, scalar));
  if (c.window_rotary && c.window_rotary->type != RotaryConfig::Type::kDefault)
    CannotHold(where, "scaled rotary positions in layers with a window", "unscaled ones");
  CheckRotary(*c.window_rotary, where);
}

void AddRotaryKeys(const RotaryConfig& rotary, const std::string& prefix, gguf::MetadataWriter& out) {
  out.Real(prefix + "rope.freq_base", rotary.theta);
  if (rotary.type != RotaryConfig::Type::kLinear) return;  // llama3's are a tensor
  out.Text(prefix + "rope.scaling.type", "linear");
  out.Real(prefix + "rope.scaling.factor", rotary.factor);
}

}  // namespace

const gguf::Architecture& GgufArchitectureOf(const ModelConfig& c, const std::string& where) {
  const gguf::Architecture* known = gguf::ArchitectureOfFamily(c.family == "mistral" ? "llama" : c.family);
  if (known == nullptr)
    CannotHold(where, WithArticle(c.family) + " model",
               "one of llama.cpp's architectures that Tare knows: mistral, " + gguf::FamiliesText());
  const bool is_gemma = known->family == "gemma3_text";
  if (c.gate != OutputGate::kNone) CannotHold(where, "gates of attention's output", "none");
  if (!is_gemma && std::ranges::any_of(c.windows, [](int window) { return window > 0; }))
    CannotHold(where, "layers that see a window of keys", "layers that see all");
  if (!is_gemma && c.attention_scale) CannotHold(where, "another scale of attention logits", "the head's width");
  CheckRotary(c.rotary, where);
  if (is_gemma) CheckGemma(c, where);
  return *known;
}

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
                                                  {"rope.dimension_count", c.head_dim}};
  for (const auto& [key, number] : numbers) out.Number(prefix + key, number);
  out.Real(prefix + "attention.layer_norm_rms_epsilon", c.norm_eps);
  AddRotaryKeys(c.rotary, prefix, out);
  if (c.logit_cap) out.Real(prefix + "final_logit_softcapping", *c.logit_cap);
  if (c.window_rotary) out.Real(prefix + "rope.freq_base_swa", c.window_rotary->theta);
  const int window = c.windows.empty() ? 0 : *std::ranges::max_element(c.windows);
  if (window > 0) out.Number(prefix + "attention.sliding_window", window);
}

}  // namespace tare
