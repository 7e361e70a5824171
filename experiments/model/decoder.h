// SPDX-License-Identifier: Apache-2.0
// Steps between a layer's data (layer.h, with the legend), shared by the families, whose sources read top-down.
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "experiments/model/layer.h"
#include "kernels/elementwise/rows.h"

namespace tare {

// Shows the call's visitors rows [R, columns], and values [R][heads][width].
void ShowRows(const LayerCall& call, Site site, float* rows, int64_t columns);
void ShowHeads(const LayerCall& call, Site site, float* values, int64_t heads, int64_t width);
// A projection of an input that visitors see; with several of one x [R, in], each input site's visitors see, and may
// change, their own copy. A part of the layer may begin here, with the kept x, or end before the products.
struct SeenProjection {
  Site site;
  const LinearWeights& linear;
  float* y;
};
void ProjectSeen(const LayerCall& call, float* x, std::initializer_list<SeenProjection> all);

// body(row) for all rows of the batch, from several threads; for none where the step does not run.
void ForRows(const LayerCall& call, const std::function<void(int64_t row)>& body);

inline float HeadNormEps(const ModelConfig& c) { return c.head_norm_eps > 0 ? c.head_norm_eps : c.norm_eps; }
void NormRows(const LayerCall& call, const std::vector<float>& weight);  // normed = norm(x) * weight
void LayerNormRows(const LayerCall& call, const std::vector<float>& weight, const std::vector<float>& bias);
void LayerNormRows(const LayerCall& call, std::string_view weight, std::string_view bias);  // the layer's vectors
void TakeRows(const LayerCall& call);                                                       // normed = x
void ProjectQkv(const LayerCall& call);  // q, k, v = W normed + b; the gate, if any
// q = norm(q) * q_weight, and likewise k: per head if the weight has a head's width, else over all heads of a token.
void NormQk(const LayerCall& call, const std::vector<float>& q_weight, const std::vector<float>& k_weight);
void RotateQk(const LayerCall& call);             // rotary embedding of q and k, in layers that have it
LambdaView ProjectLambda(const LayerCall& call);  // sigmoid(W normed + b), of each token and output head
// [k's first channels | v] = W normed, by heads; turned are k's last in every head.
void ExpandLatents(const LayerCall& call, LatentActivations& latents);
// The layer's attention over all rows of the batch: q [R, H d], k and v [R, G d], out [R, A].
AttentionProblem AttentionOf(const LayerCall& call, const float* q, const float* k, const float* v, LambdaView lambda,
                             float* out);
// attended = the head table's attention; lambda: for heads with two maps.
void Attend(const LayerCall& call, LambdaView lambda = {});
void GateHeads(const LayerCall& call);      // attended *= sigmoid(gate), of each output head or value
void ProjectOutput(const LayerCall& call);  // delta = W_o attended + b
// delta = W_down unit(W_gate normed, W_up normed): unit(gate, up, n) leaves its result in gate.
using GatedUnit = std::function<void(float* gate, const float* up, size_t n)>;
struct FeedForwardInputs {
  Site gate = Site::kGateProjIn, up = Site::kUpProjIn, down = Site::kDownProjIn;
};
void FeedForward(const LayerCall& call, const GatedUnit& unit, const FeedForwardInputs& inputs = {});
void FeedForward(const LayerCall& call);         // with the configuration's activation f: f(gate) up
void FeedForwardUngated(const LayerCall& call);  // delta = W_down f(W_up normed)
void AddDelta(const LayerCall& call);            // x += residual_scale delta
void AddNormedDelta(const LayerCall& call, const std::vector<float>& weight);  // first delta = norm(delta) * weight

// delta without attention (scan_layers.cc): Mamba, Mamba-2, normed difference, gated memory. norm: before out_proj.
void MixMamba(const LayerCall& call);
void MixMamba2(const LayerCall& call, std::string_view norm);
void MixMambaPair(const LayerCall& call, std::string_view first_norm, std::string_view second_norm);
void MixMemory(const LayerCall& call);
// A scan's parameters; names are of the family's vectors; A as stored: A_log [C, N], a Mamba-2's [heads], like D.
struct ScanNames {
  std::string_view conv, conv_bias, delta_bias, a_log, d;
};
ScanParameters ScanParametersOf(const LayerWeights& weights, const ScanNames& names, const ModelConfig& config,
                                int64_t channels);

}  // namespace tare
