// SPDX-License-Identifier: Apache-2.0
// transformers' llama (modeling_llama.py), record parts for derived families, and what differential attention adds.
#pragma once

#include <array>

#include "experiments/model/config/config.h"
#include "experiments/model/decoder.h"
#include "experiments/model/families/table.h"

namespace tare {

inline constexpr TensorNames kLlamaNames{.embedding = "model.embed_tokens.weight",
                                         .final_norm = "model.norm.weight",
                                         .head = "lm_head.weight",
                                         .layer = "model.layers."};

inline constexpr std::string_view kInputNorm = "input_layernorm.weight";
inline constexpr std::string_view kPostAttentionNorm = "post_attention_layernorm.weight";
inline std::vector<int64_t> HiddenShape(const ModelConfig& c) { return {c.hidden}; }
// A norm with a bias.
constexpr auto LayerNormVectors(std::string_view weight, std::string_view bias) {
  return std::to_array<VectorPlace>({{weight, HiddenShape, 1, 0}, {bias, HiddenShape, 0, 0.1f}});
}
inline constexpr auto kLlamaVectors =
    std::to_array<VectorPlace>({{kInputNorm, HiddenShape, 1, 0}, {kPostAttentionNorm, HiddenShape, 1, 0}});

// Norms of each head's queries and keys.
inline constexpr std::string_view kQNorm = "self_attn.q_norm.weight", kKNorm = "self_attn.k_norm.weight";
inline std::vector<int64_t> HeadDimShape(const ModelConfig& c) { return {c.head_dim}; }
inline constexpr auto kQkNormVectors =
    std::to_array<VectorPlace>({{kQNorm, HeadDimShape, 1, 0}, {kKNorm, HeadDimShape, 1, 0}});

inline constexpr auto kLlamaAttention = std::to_array<LinearPlace>({
    {Site::kQProjW, "self_attn.q_proj", &LayerWeights::q, &ModelConfig::attention_bias, kInputNorm},
    {Site::kKProjW, "self_attn.k_proj", &LayerWeights::k, &ModelConfig::attention_bias, kInputNorm},
    {Site::kVProjW, "self_attn.v_proj", &LayerWeights::v, &ModelConfig::attention_bias, kInputNorm},
    {Site::kOProjW, "self_attn.o_proj", &LayerWeights::o, &ModelConfig::attention_bias, {}},
});
inline constexpr auto kLlamaFeedForward = std::to_array<LinearPlace>({
    {Site::kGateProjW, "mlp.gate_proj", &LayerWeights::gate, &ModelConfig::mlp_bias, kPostAttentionNorm},
    {Site::kUpProjW, "mlp.up_proj", &LayerWeights::up, &ModelConfig::mlp_bias, kPostAttentionNorm},
    {Site::kDownProjW, "mlp.down_proj", &LayerWeights::down, &ModelConfig::mlp_bias, {}},
});
inline constexpr auto kLlamaLinear = Joined(kLlamaAttention, kLlamaFeedForward);

inline constexpr Site kLlamaSmoothed[]{Site::kQProjIn, Site::kGateProjIn, Site::kDownProjIn, Site::kOProjIn};

// hidden_act, or the family's own. Refuses others where that is no plain function of a value.
void ReadActivation(const ConfigKeys& keys, ModelConfig& config, const char* key = "hidden_act");
// rms_norm_eps, or the family's default.
void ReadNormEps(const ConfigKeys& keys, ModelConfig& config);
// Activation, norms, biases and rotary positions, those in config where keys are missing.
void ReadDecoderConfig(const ConfigKeys& keys, ModelConfig& config);
// As ReadDecoderConfig; windows are not read.
void ReadLlamaConfig(const ConfigKeys& keys, ModelConfig& config);
std::vector<OutputHead> LlamaHeads(const ModelConfig& config);
// delta = W_o attention(normed) + b, with the model's norms, rotary positions, gate, and lambda per layer or token.
void AttendNormed(const LayerCall& call);
void AddAttention(const LayerCall& call);  // x += W_o attention(norm(x))
void LlamaForward(const LayerCall& call);

inline constexpr Family kLlama{.name = "llama",
                               .read = ReadLlamaConfig,
                               .names = kLlamaNames,
                               .linear = kLlamaLinear,
                               .vectors = kLlamaVectors,
                               .heads = LlamaHeads,
                               .load = LoadLayer,
                               .forward = LlamaForward,
                               .rotation = Rotation::kStreamAndValues,
                               .smoothed = kLlamaSmoothed,
                               .examples = "meta-llama/Llama-3.2-1B, TinyLlama, SmolLM2, OSP of 1.4 B",
                               .defaults = DefaultsOf("llama")};
// As kLlama, except for its name, its checkpoints and its keys.
constexpr Family LikeLlama(std::string_view name, std::string_view examples,
                           void (*read)(const ConfigKeys& keys, ModelConfig&)) {
  return Changed(
      kLlama, [&](Family& f) { f.name = name, f.examples = examples, f.read = read, f.defaults = DefaultsOf(name); });
}

// ---- Differential attention (differential.cc)
//
// The first differential attention (V1, arXiv 2410.05258): a lambda per layer from four vectors, and a norm per head.
//
//   lambda = exp(lambda_q1 . lambda_k1) - exp(lambda_q2 . lambda_k2) + lambda_init
//   O_j    = (1 - lambda_init) norm((P_j1 - lambda P_j2) V_j)        a root mean square over the head's 2d channels
inline std::vector<int64_t> HeadNormShape(const ModelConfig& c) { return {2 * int64_t{c.head_dim}}; }
struct LambdaNames {
  std::string_view q1, k1, q2, k2, head_norm;
};
#define TARE_LAMBDAS(of, norm) {of "lambda_q1", of "lambda_k1", of "lambda_q2", of "lambda_k2", of norm}
inline constexpr LambdaNames kLambdaNames TARE_LAMBDAS("self_attn.", "subln.weight");
inline constexpr std::string_view kHeadNorm = kLambdaNames.head_norm;
constexpr auto LambdaVectors(const LambdaNames& names) {
  const auto vector = [](std::string_view name) {
    return VectorPlace{.tensor = name, .shape = HeadDimShape, .mean = 0, .deviation = 0.1f, .of = SiteOf::kAttention};
  };
  return std::array{vector(names.q1), vector(names.k1), vector(names.q2), vector(names.k2)};
}
inline constexpr auto kLambdaVectors = LambdaVectors(kLambdaNames);
inline constexpr auto kHeadNormVectors =
    std::to_array<VectorPlace>({{kHeadNorm, HeadNormShape, 1, 0, &ModelConfig::head_norm_weight}});

// 0.8 - 0.6 exp(-0.3 depth), layers from 0. Source: Differential Transformer, arXiv 2410.05258, section 2.1.
float LambdaInit(int depth);

// Sets lambda, and the weight of the norm of heads if the family has one, from vectors of these names.
void SetLambda(LayerWeights& weights, float lambda_init, const LambdaNames& names = kLambdaNames);

// Two maps for each head, as ModelConfig::pairing says.
std::vector<OutputHead> DifferentialHeads(const ModelConfig& config);

// Two maps make a head. Throws Error for an odd number of heads.
void RequireEven(const ConfigKeys& keys, const char* key, int heads);

// attended = (1 - lambda_init) norm(attended), head by head, with the norm's weight if it has one.
void NormHeads(const LayerCall& call);

inline constexpr Site kDifferentialSmoothed[]{Site::kQProjIn, Site::kGateProjIn,
                                              Site::kDownProjIn};  // the head norm is before o_proj

}  // namespace tare
