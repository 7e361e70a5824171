// SPDX-License-Identifier: Apache-2.0
// The transformer of flash-linear-attention (fla, model_type transformer): as llama, with tensor names and keys of its
// own, biases only of q, k and v, norms of queries and keys whose eps is 1e-5 whatever norm_eps says, and
//
//   attn_impl    parallel_softpick_attn, naive_softpick_attn: softpick (github.com/zaydzuhri/softpick-attention)
//                parallel_attn, naive_attn, flash_attn: softmax
#include "experiments/model/families/llama.h"
#include "quant/base/message.h"

namespace tare {
namespace {

// Without intermediate_size I is 2/3 of hidden_ratio E, rounded up to whole 256.
int InnerSize(const ConfigKeys& keys, int hidden) {
  const int64_t wanted = int64_t{hidden} * keys.Integer("hidden_ratio", 1, 4) * 2 / 3;
  if (wanted > 1 << 30) Fail("{}: hidden_ratio: got {} of {} channels, expected less", keys.where(), wanted, hidden);
  return keys.Integer("intermediate_size", 1, static_cast<int>((wanted + 255) / 256 * 256));
}

RowWeights ReadAttention(const ConfigKeys& keys) {
  const std::string name = keys.Has("attn_impl") ? keys.Text("attn_impl") : "flash_attn";
  if (name == "parallel_softpick_attn" || name == "naive_softpick_attn") return RowWeights::kSoftpick;
  if (name == "parallel_attn" || name == "naive_attn" || name == "flash_attn") return RowWeights::kSoftmax;
  Fail(
      "{}: attn_impl: got '{}', expected parallel_softpick_attn, naive_softpick_attn, parallel_attn, naive_attn or "
      "flash_attn (others are not supported)",
      keys.where(), name);
}

void ReadTransformer(const ConfigKeys& keys, ModelConfig& c) {
  c.heads = keys.Integer("num_heads", 1, c.heads);
  c.kv_heads = keys.Integer("num_kv_heads", 1, c.heads);
  if (c.hidden % c.heads != 0)
    Fail("{}: hidden_size: got {}, expected a multiple of num_heads {}", keys.where(), c.hidden, c.heads);
  c.head_dim = c.hidden / c.heads;
  c.ffn = InnerSize(keys, c.hidden);
  c.norm_eps = static_cast<float>(keys.Positive("norm_eps", 1e-6));
  c.attention_bias = keys.Flag("qkv_bias", false);
  c.qk_norm = keys.Flag("qk_norm", false);
  c.head_norm_eps = 1e-5f;
  c.row_weights = ReadAttention(keys);
  c.rotary = ReadRotary(keys, c.max_positions, c.rotary);
  keys.Refuse("window_size");
  if (!keys.Flag("elementwise_affine", true)) Fail("{}: elementwise_affine: false is not supported", keys.where());
  ReadActivation(keys, c);
}

constexpr std::string_view kAttnNorm = "attn_norm.weight", kMlpNorm = "mlp_norm.weight",
                           kQueryNorm = "attn.q_norm.weight", kKeyNorm = "attn.k_norm.weight";
constexpr auto kFlaVectors = std::to_array<VectorPlace>({
    {kAttnNorm, HiddenShape, 1, 0},
    {kMlpNorm, HiddenShape, 1, 0},
    {kQueryNorm, HeadDimShape, 1, 0, &ModelConfig::qk_norm},
    {kKeyNorm, HeadDimShape, 1, 0, &ModelConfig::qk_norm},
});

constexpr auto kFlaLinear = Changed(kLlamaLinear, [](auto& places) {
  At(places, Site::kQProjW).tensor = "attn.q_proj";
  At(places, Site::kKProjW).tensor = "attn.k_proj";
  At(places, Site::kVProjW).tensor = "attn.v_proj";
  At(places, Site::kOProjW).tensor = "attn.o_proj";
  At(places, Site::kOProjW).bias = nullptr;
  for (LinearPlace& place : places) {
    if (place.norm == kInputNorm) place.norm = kAttnNorm;
    if (place.norm == kPostAttentionNorm) place.norm = kMlpNorm;
  }
});

// Llama's steps know its names.
LayerWeights LoadFlaLayer(Weights& weights, const ModelConfig& config, int layer) {
  LayerWeights w = LoadLayer(weights, config, layer);
  for (const auto& [ours, llama] :
       {std::pair(kAttnNorm, kInputNorm), {kMlpNorm, kPostAttentionNorm}, {kQueryNorm, kQNorm}, {kKeyNorm, kKNorm}}) {
    if (w.vectors.contains(ours)) w.vectors[llama] = w.vectors.at(ours);
  }
  return w;
}

}  // namespace

constinit const Family kTransformer =
    Changed(LikeLlama("transformer", "zaydzuhri/softpick-340M-4096-model, vanilla-340M-4096-model", ReadTransformer),
            [](Family& f) {
              f.names.embedding = "model.embeddings.weight";
              f.linear = kFlaLinear;
              f.vectors = kFlaVectors;
              f.load = LoadFlaLayer;
              // fla's TransformerConfig; ReadTransformer reads heads and the inner size by fla's keys.
              f.defaults = {32000, 2048, 5632, 24, 32, 0, 64, 2048, 1e-6};
            });

}  // namespace tare
