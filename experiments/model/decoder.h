// SPDX-License-Identifier: Apache-2.0
// The parts that llama and diffllama layers share: their weights, one batch's activations, and the steps between them.
// The layers themselves read top-down in llama.cc and diffllama.cc. Legend: R rows of the batch (all its tokens), E
// hidden, I FFN, H query heads, G key/value heads, d head width.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "experiments/model/batch.h"
#include "experiments/model/config.h"
#include "experiments/model/executed_plan.h"
#include "experiments/model/planned_linear.h"
#include "experiments/model/rotary.h"
#include "experiments/model/weights.h"
#include "kernels/linear/projector.h"
#include "kernels/linear/quantized_linear.h"
#include "quant/base/aligned.h"

namespace tare {

// W x + b; bias empty where the checkpoint has none.
struct LinearWeights {
  WeightMatrix weight;
  std::vector<float> bias;
  std::unique_ptr<PlannedLinear> planned;  // what a plan uses in weight's place, or null
};

struct LayerWeights {
  std::vector<float> input_norm, post_attention_norm;  // [E]
  LinearWeights q, k, v, o;                            // [H d, E] [G d, E] [G d, E] [E, H d]
  LinearWeights gate, up, down;                        // [I, E] [I, E] [E, I]
  std::vector<OutputHead> heads;                       // which query, key and value heads meet
  float lambda_init = 0;                               // differential only
  float lambda = 0;
};

// The linear layers of a layer: the sites of weight and input, and where they are.
struct LinearPlace {
  Site weight, input;
  std::string_view tensor;  // behind "model.layers.N."
  LinearWeights LayerWeights::* linear;
};

inline constexpr std::array<LinearPlace, 7> kLinearPlaces{{
    {Site::kQProjW, Site::kQProjIn, "self_attn.q_proj.weight", &LayerWeights::q},
    {Site::kKProjW, Site::kKProjIn, "self_attn.k_proj.weight", &LayerWeights::k},
    {Site::kVProjW, Site::kVProjIn, "self_attn.v_proj.weight", &LayerWeights::v},
    {Site::kOProjW, Site::kOProjIn, "self_attn.o_proj.weight", &LayerWeights::o},
    {Site::kGateProjW, Site::kGateProjIn, "mlp.gate_proj.weight", &LayerWeights::gate},
    {Site::kUpProjW, Site::kUpProjIn, "mlp.up_proj.weight", &LayerWeights::up},
    {Site::kDownProjW, Site::kDownProjIn, "mlp.down_proj.weight", &LayerWeights::down},
}};

// The magnitude that becomes the largest code of a linear layer's input, of a rule with +static.
using InputClips = std::function<float(const Rule& rule, Site input, int layer)>;

// One linear layer as the plan wants it from now on; layer -1: outside the layers.
void PlanWeights(LinearWeights& linear, Site weight, Site input, const Plan& plan, LinearArithmetic arithmetic,
                 Math math, int layer, const InputClips& clips);

// The layer's weights as the plan wants them from now on. clips: needed where integers are to be computed with +static.
void PlanLayer(LayerWeights& weights, const Plan& plan, LinearArithmetic arithmetic, Math math, int layer,
               const InputClips& clips);

LayerWeights LoadLayer(Weights& weights, const ModelConfig& config, int layer);

struct Activations {
  AlignedBuffer<float> x;              // [R, E] the residual stream
  AlignedBuffer<float> normed;         // [R, E]
  AlignedBuffer<float> q, k, v;        // [R, H d] [R, G d] [R, G d]
  AlignedBuffer<float> attended;       // [R, H d]
  AlignedBuffer<float> delta;          // [R, E] what is added to the stream
  AlignedBuffer<float> gate, up;       // [R, I]
  AlignedBuffer<float> seen;           // [R, E or I] a copy of a projection's input, for its visitors
  AlignedBuffer<std::byte> workspace;  // of executed attention
  QuantizedLinear quantized;           // of executed linear layers
  std::vector<int64_t> positions;      // [R] in the sequence

  void Prepare(const TokenBatch& batch, const ModelConfig& config);
};

// All that one layer's forward pass works on.
struct LayerCall {
  const ModelConfig& config;
  const LayerWeights& weights;
  const TokenBatch& batch;
  const RotaryTable& rotary;
  Projector& projector;
  SiteVisitors visitors;
  const ExecutedPlan* attention;  // on the integer kernels; null: in f32
  int layer;
  Activations& a;
};

void NormRows(const LayerCall& call, const std::vector<float>& weight);  // normed = norm(x) * weight
void ProjectQkv(const LayerCall& call);                                  // q, k, v = W normed + b
void RotateQk(const LayerCall& call);                                    // rotary embedding of q and k
void Attend(const LayerCall& call);                                      // attended = the head table's attention
void AddAttentionOutput(const LayerCall& call);                          // x += W_o attended + b
void AddFeedForward(const LayerCall& call);  // x += W_down (silu(W_gate normed) * W_up normed)

}  // namespace tare
