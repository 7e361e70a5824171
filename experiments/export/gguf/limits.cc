// SPDX-License-Identifier: Apache-2.0
#include "experiments/export/gguf/limits.h"

#include <algorithm>
#include <cmath>

#include "experiments/text/grammar.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/notice.h"

namespace tare {
namespace {

[[noreturn]] void CannotHold(const std::string& where, const std::string& got, const std::string& expected) {
  Fail("{}: to gguf: got {}, expected {}; a GGUF file cannot hold it", where, got, expected);
}

// llama.cpp (0.7.0) reads neither of these keys in the architectures that Tare writes. gpt-oss's own configuration does
// not truncate, and all its GGUF files are computed so.
void CheckYarn(const RotaryConfig& rotary, std::string_view family, const std::string& where) {
  const RotaryConfig fixed;
  if (rotary.fast_rotations != fixed.fast_rotations || rotary.slow_rotations != fixed.slow_rotations)
    CannotHold(where,
               Formatted("yarn with beta_fast {} and beta_slow {}", rotary.fast_rotations, rotary.slow_rotations),
               Formatted("{} and {}", fixed.fast_rotations, fixed.slow_rotations));
  if (!rotary.truncate && family != "gpt_oss") CannotHold(where, "yarn with truncate false", "true");
  if (!rotary.truncate)
    Notice("llama.cpp 0.7.0 computes yarn as with truncate true, so its logits are not those of this gpt-oss");
}

void CheckRotary(const RotaryConfig& rotary, std::string_view family, const std::string& where) {
  if (rotary.layout != RotaryConfig::Layout::kHalfSplit)
    CannotHold(where, "rotary positions of neighbouring channels",
               "those of halves; try tare convert to the model's own family first");
  if (rotary.original_positions != std::floor(rotary.original_positions))
    CannotHold(where, Formatted("original_max_position_embeddings {}", rotary.original_positions), "a whole number");
  if (rotary.type == RotaryConfig::Type::kYarn) CheckYarn(rotary, family, where);
  if (rotary.type == RotaryConfig::Type::kLongRope && family != "phi3")
    CannotHold(where, "rotary positions of type longrope", "default, linear, llama3 or yarn");
}

// Of a layer that sees all keys and of the others, by what llama.cpp fixes.
void CheckPeriod(const ModelConfig& c, int period, const std::string& text, const std::string& where) {
  for (int layer = 0; layer < c.layers; ++layer) {
    if ((c.Window(layer) == 0) != ((layer + 1) % period == 0))
      CannotHold(where, Formatted("layer {} {} a window", layer, c.Window(layer) == 0 ? "without" : "with"),
                 Formatted("{} to see all keys and the others a window", text));
  }
}

void CheckGemma(const ModelConfig& c, const std::string& where) {
  CheckPeriod(c, 6, "every sixth layer", where);
  constexpr int kLayersOf27B = 62;
  const int scalar = c.layers == kLayersOf27B ? c.hidden / c.heads : c.head_dim;
  const float scale = 1.0f / std::sqrt(static_cast<float>(scalar));
  if (c.attention_scale.value_or(scale) != scale)
    CannotHold(where, Formatted("attention logits times {}", *c.attention_scale),
               Formatted("{}, of query_pre_attn_scalar {}", scale, scalar));
  if (c.rotary.type == RotaryConfig::Type::kYarn && c.rotary.attention_factor != YarnAttentionFactor(c.rotary.factor))
    CannotHold(where, Formatted("yarn with attention_factor {}", c.rotary.attention_factor),
               Formatted("{}, which follows from its factor", YarnAttentionFactor(c.rotary.factor)));
  if (c.window_rotary && c.window_rotary->type != RotaryConfig::Type::kDefault)
    CannotHold(where, "scaled rotary positions in layers with a window", "unscaled ones");
  CheckRotary(*c.window_rotary, c.family, where);
}

void CheckSmolLm3(const ModelConfig& c, const std::string& where) {
  constexpr int kPeriod = 4;
  for (int layer = 0; layer < c.layers; ++layer) {
    if (c.Rotates(layer) == ((layer + 1) % kPeriod == 0))
      CannotHold(where, Formatted("layer {} {} rotary positions", layer, c.Rotates(layer) ? "with" : "without"),
                 "every fourth layer without them");
  }
}

// Biases and widths for which llama.cpp has tensors.
void CheckShapes(const ModelConfig& c, const std::string& family, const std::string& where) {
  constexpr std::string_view kWithBiases[]{"llama", "mixtral", "qwen2", "granite", "gpt_oss"};
  if (c.attention_bias && !std::ranges::contains(kWithBiases, family))
    CannotHold(where, "biases of attention", "none in " + WithArticle(family));
  if (!c.attention_bias && family == "gpt_oss") CannotHold(where, "a gpt_oss without biases of attention", "biases");
  if (c.mlp_bias && family != "llama" && family != "granite" && family != "gpt_oss")
    CannotHold(where, "biases of the feed-forward", "none in " + WithArticle(family));
  const bool is_square = family == "phi3" || family == "olmo2" || family == "olmo3";
  if (is_square && c.heads * c.head_dim != c.hidden)
    CannotHold(where, Formatted("{} heads of width {}", c.heads, c.head_dim),
               Formatted("heads that are as wide as the hidden size {} together", c.hidden));
}

// Windows of all layers in phi3, of most in olmo3, of every other in gpt-oss; of none in other families.
void CheckWindows(const ModelConfig& c, const std::string& family, const std::string& where) {
  const bool any = std::ranges::any_of(c.windows, [](int window) { return window > 0; });
  if (family == "gpt_oss") return CheckPeriod(c, 2, "every second layer", where);
  if (family == "olmo3" && !any) CannotHold(where, "an olmo3 without windows", "windows in some layers");
  if (any && family == "phi3")
    Notice("llama.cpp 0.7.0 lets every query of a phi3 see all keys, and ignores its window");
  if (any && family != "olmo3" && family != "phi3")
    CannotHold(where, "layers that see a window of keys", "layers that see all");
}

}  // namespace

const gguf::Architecture& GgufArchitectureOf(const ModelConfig& c, const std::string& where) {
  const gguf::Architecture* known = gguf::ArchitectureOfFamily(c.family == "mistral" ? "llama" : c.family);
  if (known == nullptr)
    CannotHold(where, WithArticle(c.family) + " model",
               "one of llama.cpp's architectures that Tare knows: mistral, " + gguf::FamiliesText());
  const std::string family(known->family);
  const bool is_gemma = family == "gemma3_text";
  if (c.gate != OutputGate::kNone) CannotHold(where, "gates of attention's output", "none");
  if (c.attention_scale && !is_gemma && family != "granite")
    CannotHold(where, "another scale of attention logits", "the head's width");
  if (family == "qwen3_moe" && !c.shares_sum)
    CannotHold(where, "norm_topk_prob false", "shares of a token's experts that sum to 1");
  CheckShapes(c, family, where);
  CheckRotary(c.rotary, family, where);
  if (c.rotary.type == RotaryConfig::Type::kLlama3 && (!known->rotates_neighbours || family == "smollm3"))
    CannotHold(where, "rotary positions of type llama3", "default, linear or yarn in " + WithArticle(family));
  if (is_gemma) CheckGemma(c, where);
  if (!is_gemma) CheckWindows(c, family, where);
  if (family == "smollm3") CheckSmolLm3(c, where);
  return *known;
}

}  // namespace tare
