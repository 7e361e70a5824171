// SPDX-License-Identifier: Apache-2.0
// Feed-forward by experts. A router of E experts chooses, for each token x, the k of the largest r = W_r x + b_r; with
// T these k and I channels in each,
//
//   delta = sum over e in T of s_e (W_down,e unit(W_gate_up,e x + b) + b_down,e),   s = softmax of r over T
//
// or over all experts, where ModelConfig::shares_sum is false; gate and up are one matrix (gate_with_up) or two. Of
// equal logits the smaller number is chosen. Experts run one after another, each with all rows that reach it, and only
// where one does: weights that are kept as codes, or that a plan rounds, need the memory of one expert.
#pragma once

#include <string_view>

#include "experiments/model/decoder.h"

namespace tare {

// inner [width] of gate and up [width], or of both in turns in gate [2 width].
using ExpertUnit = void (*)(const float* gate, const float* up, float* inner, size_t width);

struct RouterNames {
  std::string_view weight, bias;  // of LayerWeights::vectors: [experts, E] and [experts]; no bias if empty
};

// delta, of normed.
void FeedExperts(const LayerCall& call, const RouterNames& router, ExpertUnit unit);

// gpt-oss: gate and up are neighbours, g = min(gate, 7), u = up within 7 of 0:  (u + 1) g sigmoid(1.702 g).
void ClampedSwiGlu(const float* gate_up, const float*, float* inner, size_t width);
// silu(gate) up
void ExpertSwiGlu(const float* gate, const float* up, float* inner, size_t width);

}  // namespace tare
