// SPDX-License-Identifier: Apache-2.0
// Motif: V1 with neighbouring maps, half-split rotary positions and a head norm with a weight, as diff_v1, but
//   lambda_init = 0.8 - 0.6 exp(-0.3 (layer - 1))      -0.0099 in the first layer
//   FFN(x)      = W_down (PolyNorm(W_gate x) * W_up x)
// With num_noise_heads, heads are grouped (arXiv 2510.06949): of each num_attention_heads / num_noise_heads query
// heads, the last is the second map of all others, each of which outputs 2 d values.
// Source: the public model's code, and vllm-project/vllm.
#include "experiments/model/families/llama.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr std::string_view kTerms = "mlp.act_fn.weight", kTermsBias = "mlp.act_fn.bias";
std::vector<int64_t> TermsShape(const ModelConfig&) { return {3}; }
std::vector<int64_t> TermsBiasShape(const ModelConfig&) { return {1}; }
constexpr auto kTermsVectors =
    std::to_array<VectorPlace>({{kTerms, TermsShape, 1.0f / 3, 0}, {kTermsBias, TermsBiasShape, 0, 0}});
constexpr auto kMotifVectors = Joined(kLlamaVectors, kLambdaVectors, kHeadNormVectors, kTermsVectors);

int NoiseHeads(const ModelConfig& c) { return c.noise_heads > 0 ? c.noise_heads : c.heads / 2; }

void ReadMotifConfig(const ConfigKeys& keys, ModelConfig& c) {
  if (keys.Has("attention_cls") && keys.Text("attention_cls") == "gdla") {
    c.family = kMotif3.name;
    return kMotif3.read(keys, c);
  }
  ReadDecoderConfig(keys, c);
  c.attention_bias = c.mlp_bias = keys.Flag("use_bias", false);
  if (keys.Flag("qkv_bias", c.attention_bias) != c.attention_bias)
    Fail("{}: qkv_bias: got {}, expected what use_bias says, {} (others are not supported)", keys.where(),
         !c.attention_bias, c.attention_bias);
  keys.Refuse("sliding_window");
  keys.Refuse("k_ratio", {"1"});
  for (const char* key : {"kv_lora_rank", "mhc_enabled", "diff_v2", "use_sliding_window"}) keys.Refuse(key);
  c.head_norm_eps = static_cast<float>(keys.Positive("attn_rms_norm_eps", 1e-5));
  if (keys.Has("num_noise_heads")) c.noise_heads = keys.Integer("num_noise_heads", 1);
  const int noise = NoiseHeads(c);
  if (noise < 1 || noise > c.heads / 2 || c.heads % noise != 0)
    Fail("{}: num_attention_heads: got {}, expected a multiple of {} that is more than {}", keys.where(), c.heads,
         c.noise_heads > 0 ? Formatted("num_noise_heads {}", noise) : "two", noise);
  if (c.kv_heads % 2 != 0 || noise % (c.kv_heads / 2) != 0)
    Fail("{}: num_key_value_heads: got {}, expected an even number whose half divides {} noise heads", keys.where(),
         c.kv_heads, noise);
}

LayerWeights LoadMotifLayer(Weights& weights, const ModelConfig& config, int layer) {
  LayerWeights w = LoadLayer(weights, config, layer);
  SetLambda(w, LambdaInit(layer - 1));
  return w;
}

void MotifForward(const LayerCall& call) {
  const auto& vectors = call.weights.vectors;
  AddAttention(call);
  NormRows(call, vectors.at(kPostAttentionNorm));
  const PolyNormTerms terms{.w = vectors.at(kTerms).data(), .bias = vectors.at(kTermsBias).front()};
  FeedForward(call, [&](float* gate, const float* up, size_t n) { PolyNormGlu(gate, up, terms, n); });
  AddDelta(call);
}

}  // namespace

constinit const Family kMotif =
    Changed(LikeLlama("motif", "Motif-Technologies/Motif-2.6B, the grouped form of Motif-2-12.7B", ReadMotifConfig),
            [](Family& f) {
              f.activation = "poly_norm";
              f.vectors = kMotifVectors;
              f.heads = [](const ModelConfig& c) { return GroupedHeads(c.heads, NoiseHeads(c), c.kv_heads); };
              f.load = LoadMotifLayer;
              f.forward = MotifForward;
              f.rotation = Rotation::kStream;
              f.smoothed = kDifferentialSmoothed;
            });

}  // namespace tare
