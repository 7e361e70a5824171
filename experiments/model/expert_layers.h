// SPDX-License-Identifier: Apache-2.0
// Feed-forward by experts. A router of E experts chooses, for each token x, the k of the largest r = W_r x + b_r; with
// T these k and I channels in each,
//
//   delta = sum over e in T of s_e (W_down,e unit(W_gate_up,e x + b) + b_down,e),   s = softmax of r over T
//
// Of equal logits the smaller number is chosen. Experts run one after another, each with all rows that reach it.
#pragma once

#include <string_view>

#include "experiments/model/decoder.h"

namespace tare {

// inner [width] of gate_up [2 width].
using ExpertUnit = void (*)(const float* gate_up, float* inner, size_t width);

struct RouterNames {
  std::string_view weight, bias;  // of LayerWeights::vectors: [experts, E] and [experts]
};

// delta, of normed.
void FeedExperts(const LayerCall& call, const RouterNames& router, ExpertUnit unit);

// gpt-oss: gate and up are neighbours, g = min(gate, 7), u = up within 7 of 0:  (u + 1) g sigmoid(1.702 g).
void ClampedSwiGlu(const float* gate_up, float* inner, size_t width);

}  // namespace tare
