// SPDX-License-Identifier: Apache-2.0
// Parts shared by the families of the first differential attention (V1, arXiv 2410.05258): one lambda per layer from
// four vectors, and a norm of each head's output.
//
//   lambda = exp(lambda_q1 . lambda_k1) - exp(lambda_q2 . lambda_k2) + lambda_init
//   O_j    = (1 - lambda_init) norm((P_j1 - lambda P_j2) V_j)        a root mean square over the head's 2d channels
#pragma once

#include <array>

#include "experiments/model/config/config.h"
#include "experiments/model/decoder.h"

namespace tare {

inline constexpr std::string_view kHeadNorm = "self_attn.subln.weight";

inline std::vector<int64_t> LambdaShape(const ModelConfig& c) { return {c.head_dim}; }
inline std::vector<int64_t> HeadNormShape(const ModelConfig& c) { return {2 * int64_t{c.head_dim}}; }
struct LambdaNames {
  std::string_view q1 = "self_attn.lambda_q1", k1 = "self_attn.lambda_k1";
  std::string_view q2 = "self_attn.lambda_q2", k2 = "self_attn.lambda_k2";
  std::string_view head_norm = kHeadNorm;
};
constexpr auto LambdaVectors(const LambdaNames& names) {
  const auto vector = [](std::string_view name) {
    return VectorPlace{.tensor = name, .shape = LambdaShape, .mean = 0, .deviation = 0.1f, .of = SiteOf::kAttention};
  };
  return std::array{vector(names.q1), vector(names.k1), vector(names.q2), vector(names.k2)};
}
inline constexpr auto kLambdaVectors = LambdaVectors({});
inline constexpr auto kHeadNormVectors =
    std::to_array<VectorPlace>({{kHeadNorm, HeadNormShape, 1, 0, &ModelConfig::head_norm_weight}});

// 0.8 - 0.6 exp(-0.3 depth), layers from 0. Source: Differential Transformer, arXiv 2410.05258, section 2.1.
float LambdaInit(int depth);

// Sets lambda, and the weight of the norm of heads if the family has one, from vectors of these names.
void SetLambda(LayerWeights& weights, float lambda_init, const LambdaNames& names = {});

// Two maps for each head, as ModelConfig::pairing says.
std::vector<OutputHead> DifferentialHeads(const ModelConfig& config);

// Two maps make a head. Throws Error for an odd number of heads.
void RequireEven(const ConfigKeys& keys, const char* key, int heads);

// attended = (1 - lambda_init) norm(attended), head by head, with the norm's weight if it has one.
void NormHeads(const LayerCall& call);
float HeadNormEps(const ModelConfig& config);

inline constexpr Site kDifferentialSmoothed[]{Site::kQProjIn, Site::kGateProjIn,
                                              Site::kDownProjIn};  // the head norm is before o_proj

}  // namespace tare
