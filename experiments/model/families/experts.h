// SPDX-License-Identifier: Apache-2.0
// What families with experts (experiments/model/expert_layers.h) share: the keys of config.json that count them, and
// their places in a record.
#pragma once

#include <string_view>
#include <vector>

#include "experiments/model/config/config_keys.h"
#include "experiments/model/families/llama.h"

namespace tare {

struct ExpertCounts {
  int experts, chosen;  // where config.json does not say it
};

// num_local_experts, or num_experts; num_experts_per_tok, or experts_per_token.
void ReadExperts(const ConfigKeys& keys, ModelConfig& config, ExpertCounts otherwise);

inline std::vector<int64_t> RouterShape(const ModelConfig& c) { return {c.experts, c.hidden}; }
inline std::vector<int64_t> RouterBiasShape(const ModelConfig& c) { return {c.experts}; }

// A router's weight, which reads what the norm before the experts makes.
constexpr VectorPlace RouterPlace(std::string_view tensor) {
  return {.tensor = tensor, .shape = RouterShape, .mean = 0, .deviation = 0.1f, .norm = kPostAttentionNorm};
}

// Matrices of each expert; names have {} for its number.
constexpr LinearPlace WideExperts(std::string_view tensor, std::vector<LinearWeights> LayerWeights::* experts) {
  return {.weight = Site::kExpertsGateUpW,
          .input = Site::kExpertsGateUpIn,
          .tensor = tensor,
          .linear = nullptr,
          .bias = nullptr,
          .norm = kPostAttentionNorm,
          .fused = {},
          .experts = experts};
}
constexpr LinearPlace NarrowExperts(std::string_view tensor) {
  return {.weight = Site::kExpertsDownW,
          .input = Site::kExpertsDownIn,
          .tensor = tensor,
          .linear = nullptr,
          .bias = nullptr,
          .norm = {},
          .fused = {},
          .experts = &LayerWeights::experts_down};
}
// Llama's attention, and these in the place of its feed-forward.
constexpr std::array<LinearPlace, 7> WithExperts(std::string_view gate, std::string_view up, std::string_view down) {
  std::array<LinearPlace, 7> places = kLlamaLinear;
  At(places, Site::kGateProjW) = WideExperts(gate, &LayerWeights::experts_gate_up);
  At(places, Site::kUpProjW) = WideExperts(up, &LayerWeights::experts_up);
  At(places, Site::kDownProjW) = NarrowExperts(down);
  return places;
}

}  // namespace tare
