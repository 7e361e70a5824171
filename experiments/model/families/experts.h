// SPDX-License-Identifier: Apache-2.0
// What families with experts share: keys of config.json that count them, places in a record, and the feed-forward. Of E
// experts a router chooses for each token x the k with the largest r = W_r x + b_r; with T these k, I channels each,
//
//   delta = sum over e in T of s_e (W_down,e unit(W_gate_up,e x + b) + b_down,e),   s = softmax of r over T
//
// or over all experts, where ModelConfig::shares_sum is false; gate and up are one matrix (gate_with_up) or two. With
// RouterScores::kSigmoid the choice is of sigmoid(W_r x) + b_r, and s = route_scale sigmoid(W_r x) over their sum. Of
// equal logits the smaller number is chosen. Experts run one after another, each with all rows that reach it, and only
// where one does: weights that are kept as codes, or that a plan rounds, need the memory of one expert.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "experiments/model/families/llama.h"

namespace tare {

// inner [width] of an expert's gate and up [2 width].
using ExpertUnit = std::function<void(size_t expert, const float* gate_up, float* inner, size_t width)>;

struct RouterNames {
  std::string_view weight, bias;  // of LayerWeights::vectors: [experts, E] and [experts]; no bias if empty
};

// x += W_o attention(norm(x)); x += experts(norm(x)), or llama's feed-forward. unit: null with two matrices: f(gate) up
void ExpertsForward(const LayerCall& call, const RouterNames& router, const ExpertUnit& unit = nullptr);
// delta = experts(normed), added to what a shared expert left there, where the layer has one.
void FeedExperts(const LayerCall& call, const RouterNames& router, const ExpertUnit& unit);

// gpt-oss: gate and up are neighbours, g = min(gate, 7), u = up within 7 of 0:  (u + 1) g sigmoid(1.702 g).
void ClampedSwiGlu(size_t expert, const float* gate_up, float* inner, size_t width);

struct ExpertCounts {
  int experts, chosen;  // where config.json does not say it
};

// num_local_experts, or num_experts; num_experts_per_tok, or experts_per_token.
void ReadExperts(const ConfigKeys& keys, ModelConfig& config, ExpertCounts otherwise);

inline std::vector<int64_t> RouterShape(const ModelConfig& c) { return {c.experts, c.hidden}; }
inline std::vector<int64_t> RouterBiasShape(const ModelConfig& c) { return {c.experts}; }

// Not the inner values of experts: a clamped unit is not linear in them.
inline constexpr Site kExpertsSmoothed[]{Site::kQProjIn, Site::kExpertsGateUpIn, Site::kOProjIn};

// A router's weight, which reads what the norm before the experts makes.
constexpr VectorPlace RouterPlace(std::string_view tensor) {
  return {tensor, RouterShape, 0, 0.1f, nullptr, kPostAttentionNorm, SiteOf::kExperts};
}

// Matrices of each expert; names have {} for its number. fused: LinearPlace::fused.
constexpr LinearPlace WideExperts(std::string_view tensor, std::vector<LinearWeights> LayerWeights::* experts,
                                  std::string_view fused = {}) {
  return {.weight = Site::kExpertsGateUpW,
          .tensor = tensor,
          .norm = kPostAttentionNorm,
          .fused = fused,
          .experts = experts};
}
constexpr LinearPlace NarrowExperts(std::string_view tensor, std::string_view fused = {}) {
  return {.weight = Site::kExpertsDownW, .tensor = tensor, .fused = fused, .experts = &LayerWeights::experts_down};
}
// Llama's attention, and these in the place of its feed-forward.
constexpr auto WithExperts(std::string_view gate, std::string_view up, std::string_view down) {
  return Joined(kLlamaAttention, std::array{WideExperts(gate, &LayerWeights::experts_gate_up),
                                            WideExperts(up, &LayerWeights::experts_up), NarrowExperts(down)});
}

}  // namespace tare
