// SPDX-License-Identifier: Apache-2.0
// Qwen2 (Qwen 1.5, 2, 2.5): as llama, biases only for q, k, v; with use_sliding_window, windows from max_window_layers.
//
// Qwen3: as llama, with norms of each head's queries and keys before rotary positions, windows as in qwen2, and, if the
// configuration has it, a sigmoid gate, one per head (headwise) or per value (elementwise):
//   x += W_o (softmax(rope(norm(Q)) rope(norm(K))^T / sqrt(d)) V * sigmoid(Z)),   Q, Z, K, V of norm(x)
// Q and Z are rows of q_proj: for each key/value head, the queries of its group, then their gates.
//
// Qwen3-MoE (modeling_qwen3_moe.py): qwen3's attention, and experts (experts.h), except in mlp_only_layers and where
// decoder_sparse_step skips. With norm_topk_prob a token's shares sum to 1, else they are of a softmax over all. With
// use_sliding_window all layers slide, as in transformers 5.12, whatever max_window_layers and layer_types say.
#include <utility>

#include "experiments/model/families/experts.h"
#include "quant/base/message.h"

namespace tare {
namespace {

// use_sliding_window, and max_window_layers, the first layer that slides.
std::vector<int> ReadQwenWindows(const ConfigKeys& keys, int layers) {
  const int window = keys.Flag("use_sliding_window", false) ? ReadWindow(keys, 4096) : 0;
  const int first = keys.Integer("max_window_layers", 0, 28);
  return ReadWindows(keys, layers, window, [first](int layer) { return layer >= first; }, "max_window_layers");
}

void ReadQwen2Config(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  keys.Refuse("use_mrope");
  c.windows = ReadQwenWindows(keys, c.layers);
  c.attention_bias = true;  // whatever a key says
  c.mlp_bias = false;
}

constexpr auto kQwen2Linear = Changed(kLlamaLinear, [](auto& places) { At(places, Site::kOProjW).bias = nullptr; });

void ReadQwen3Decoder(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  c.mlp_bias = false;
  c.qk_norm = true;
}

void ReadQwen3Config(const ConfigKeys& keys, ModelConfig& c) {
  ReadQwen3Decoder(keys, c);
  c.windows = ReadQwenWindows(keys, c.layers);
  c.attention_bias = keys.Flag("qkv_bias", c.attention_bias);  // of the gate's authors
  if (!keys.Flag("use_qk_norm", true)) Fail("{}: use_qk_norm: false is not supported", keys.where());
  if (keys.Flag("headwise_attn_output_gate", false)) {
    keys.Refuse("elementwise_attn_output_gate");
    c.gate = OutputGate::kPerHead;
  } else if (keys.Flag("elementwise_attn_output_gate", false)) {
    c.gate = OutputGate::kPerValue;
  }
}

constexpr auto kQwen3Vectors = Joined(kLlamaVectors, kQkNormVectors);

constexpr RouterNames kQwen3MoeRouter{.weight = "mlp.gate.weight", .bias = {}};

void ReadQwen3Moe(const ConfigKeys& keys, ModelConfig& c) {
  ReadQwen3Decoder(keys, c);
  const int window = keys.Flag("use_sliding_window", false) ? ReadWindow(keys, 4096) : 0;
  if (window > 0) {
    c.windows.assign(static_cast<size_t>(c.layers), window);
    NoteUnread(keys, c.family, {"max_window_layers", "layer_types"});
  }
  c.dense_ffn = std::exchange(c.ffn, keys.Integer("moe_intermediate_size", 1, 768));
  c.shares_sum = keys.Flag("norm_topk_prob", false);
  ReadExperts(keys, c, {.experts = 128, .chosen = 8});
  const int step = keys.Integer("decoder_sparse_step", 1, 1);
  const std::vector<std::optional<int>> listed =
      keys.Has("mlp_only_layers") ? keys.Integers("mlp_only_layers", 0) : std::vector<std::optional<int>>();
  for (int layer = 0; layer < c.layers; ++layer)
    c.dense.push_back((layer + 1) % step != 0 || std::ranges::contains(listed, std::optional(layer)));
  if (!std::ranges::contains(c.dense, true)) c.dense.clear();
}

constexpr auto kQwen3MoeLinear =
    Joined(WithExperts("mlp.experts.{}.gate_proj", "mlp.experts.{}.up_proj", "mlp.experts.{}.down_proj"),
           kLlamaFeedForward);  // of layers without experts
constexpr auto kQwen3MoeVectors = Joined(kQwen3Vectors, std::array{RouterPlace(kQwen3MoeRouter.weight)});

}  // namespace

constinit const Family kQwen2 =
    Changed(LikeLlama("qwen2", "Qwen/Qwen2.5-0.5B to 7B", ReadQwen2Config), [](Family& f) { f.linear = kQwen2Linear; });

// A gate per value between V and o_proj forbids rotating the values of a head.
constinit const Family kQwen3 =
    Changed(LikeLlama("qwen3", "Qwen/Qwen3-0.6B to 8B; QwQZh/gated_attention (site attn_gate)", ReadQwen3Config),
            [](Family& f) {
              f.vectors = kQwen3Vectors;
              f.rotation = Rotation::kStream;
            });

constinit const Family kQwen3Moe = Changed(LikeLlama("qwen3_moe", "Qwen/Qwen3-30B-A3B", ReadQwen3Moe), [](Family& f) {
  f.linear = kQwen3MoeLinear;
  f.vectors = kQwen3MoeVectors;
  f.forward = [](const LayerCall& call) { ExpertsForward(call, kQwen3MoeRouter); };
  f.smoothed = kExpertsSmoothed;
});

}  // namespace tare
