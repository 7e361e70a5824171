// SPDX-License-Identifier: Apache-2.0
// Gemma 3, text: norms multiply by 1 + w, and are before and after each block and on each head's queries and keys.
//   x = sqrt(E) embedding;   x += norm(attention(norm(x)));   x += norm(W_down (gelu(W_gate y) * W_up y)),  y = norm(x)
// Attention logits are divided by sqrt(query_pre_attn_scalar). Five layers of six see a window, with their own rotary
// positions (smaller base, unscaled). Vocabulary logits may be capped. The embedding's factor is not rounded.

#include <cmath>

#include "experiments/model/activation.h"
#include "experiments/model/families/llama.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr std::string_view kPreFeedForwardNorm = "pre_feedforward_layernorm.weight",
                           kPostFeedForwardNorm = "post_feedforward_layernorm.weight";

void ReadPositions(const ConfigKeys& keys, ModelConfig& c) {
  constexpr double kWindowTheta = 1e4;
  c.rotary.theta = keys.Positive("rope_theta", c.rotary.theta);
  c.window_rotary = RotaryConfig{.theta = keys.Positive("rope_local_base_freq", kWindowTheta)};
  if (keys.Has("rope_parameters")) {
    const ConfigKeys by_type = keys.Object("rope_parameters");
    const auto read = [&](const char* type, const char* older, RotaryConfig& rotary) {
      if (!by_type.Has(type)) return;
      keys.Agree(older, by_type.Object(type), "rope_theta");
      rotary = ReadRotaryObject(by_type.Object(type), c.max_positions, rotary);
    };
    // transformers writes these beside the others where no layer is of one type, and reads them nowhere.
    for (const char* flat : {"rope_type", "rope_theta", "factor"})
      if (!by_type.Has("full_attention") && !by_type.Has("sliding_attention")) by_type.Refuse(flat);
    read("full_attention", "rope_theta", c.rotary);
    read("sliding_attention", "rope_local_base_freq", *c.window_rotary);
  }
  if (keys.Has("rope_scaling"))
    keys.Object("rope_scaling").Refuse("type");  // transformers' class reads rope_type alone
  c.rotary = ReadScaling(keys, c.max_positions, c.rotary, {.theta = c.rotary.theta});
  c.rotary.truncate = true;  // transformers does not look for the key here
}

// Every layer slides but the last of each pattern, unless layer_types says it layer by layer.
std::vector<int> ReadPattern(const ConfigKeys& keys, int layers, bool causal) {
  // In both directions less than w / 2 + 1 away.
  const int window = ReadWindow(keys, 4096) / (causal ? 1 : 2), pattern = keys.Integer("sliding_window_pattern", 1, 6);
  if (window == 0 && pattern > 1 && !keys.Has("layer_types"))
    Fail(
        "{}: sliding_window: got null, expected a number of keys, as sliding_window_pattern {} makes layers slide; try "
        "the window that the model was trained with",
        keys.where(), pattern);
  return ReadWindows(
      keys, layers, window, [pattern](int layer) { return (layer + 1) % pattern != 0; }, "sliding_window_pattern");
}

void ReadGemma3Config(const ConfigKeys& keys, ModelConfig& c) {
  ReadActivation(keys, c, "hidden_activation");
  NoteUnread(keys, c.family, {"attn_logit_softcapping"});
  if (keys.Has("hidden_act") && FindActivation(keys.Text("hidden_act")) != c.activation)
    NoteUnread(keys, c.family, {"hidden_act"});
  c.causal = !keys.Flag("use_bidirectional_attention", false);
  ReadNormEps(keys, c);
  c.attention_bias = keys.Flag("attention_bias", false);
  c.attention_scale = 1.0f / std::sqrt(static_cast<float>(keys.Positive("query_pre_attn_scalar", 256)));
  if (keys.Has("final_logit_softcapping")) c.logit_cap = static_cast<float>(keys.Positive("final_logit_softcapping"));
  c.embedding_scale = std::sqrt(static_cast<float>(c.hidden));
  c.qk_norm = true;
  c.windows = ReadPattern(keys, c.layers, c.causal);
  ReadPositions(keys, c);
}

void Gemma3Forward(const LayerCall& call) {
  const auto& vectors = call.weights.vectors;
  NormRows(call, vectors.at(kInputNorm));
  AttendNormed(call);
  AddNormedDelta(call, vectors.at(kPostAttentionNorm));
  NormRows(call, vectors.at(kPreFeedForwardNorm));
  FeedForward(call);
  AddNormedDelta(call, vectors.at(kPostFeedForwardNorm));
}

constexpr auto kGemma3Linear = Changed(kLlamaLinear, [](auto& places) {
  At(places, Site::kGateProjW).norm = At(places, Site::kUpProjW).norm = kPreFeedForwardNorm;
});
constexpr VectorPlace kGemma3Vectors[]{{kInputNorm, HiddenShape, 0, 0},
                                       {kPostAttentionNorm, HiddenShape, 0, 0},
                                       {kPreFeedForwardNorm, HiddenShape, 0, 0},
                                       {kPostFeedForwardNorm, HiddenShape, 0, 0},
                                       {kQNorm, HeadDimShape, 0, 0},
                                       {kKNorm, HeadDimShape, 0, 0}};

}  // namespace

constinit const Family kGemma3 =
    Changed(LikeLlama("gemma3_text", "google/gemma-3-1b-pt; only the text part of larger models", ReadGemma3Config),
            [](Family& f) {
              f.activation = "gelu_pytorch_tanh";
              f.linear = kGemma3Linear;
              f.vectors = kGemma3Vectors;
              f.forward = Gemma3Forward;
              f.rotation = Rotation::kNone;
              f.norm_offset = 1;
            });

}  // namespace tare
