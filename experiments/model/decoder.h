// SPDX-License-Identifier: Apache-2.0
// Parts shared by the families' layers: their weights, one batch's activations, and the steps between them. The layers
// themselves read top-down in the families' sources (llama.cc, diffllama.cc). Legend: R rows of the batch (all its
// tokens), E hidden, I FFN, H query heads, G key/value heads, d head width, A width of attention's output (H d, or as
// the head table gives it).
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "experiments/model/batch.h"
#include "experiments/model/cached_attention.h"
#include "experiments/model/config/config.h"
#include "experiments/model/config/family.h"
#include "experiments/model/layer_part.h"
#include "experiments/model/planned_linear.h"
#include "experiments/model/rotary.h"
#include "experiments/model/weights.h"
#include "experiments/plan/executed_sequence.h"
#include "kernels/elementwise/rows.h"
#include "kernels/linear/one_token.h"
#include "kernels/linear/projector.h"
#include "kernels/linear/quantized_linear.h"
#include "kernels/scan/selective_scan.h"
#include "quant/base/aligned.h"

namespace tare {

// W x + b; bias is empty if the checkpoint has none.
struct LinearWeights {
  WeightMatrix weight;
  std::vector<float> bias;
  std::unique_ptr<PlannedLinear> planned;  // used instead of weight under a plan, or null
  // What a plan says of it, where that is carried out whenever the weight is used, because all weights together would
  // need too much memory: of one of many experts everything, of others what no packed codes serve. Else empty.
  std::optional<LinearRules> when_used;

  const WeightMatrix& Float() const { return FloatOf(planned.get(), weight); }
};

struct LayerWeights {
  LinearWeights q, k, v, o;      // [H (d + gates), E] [G d, E] [G d, E] [E, A]
  LinearWeights gate, up, down;  // [I, E] [I, E] [E, I]
  // By expert: [2 I, E] or [I, E], with one more such matrix in experts_up; [E, I].
  std::vector<LinearWeights> experts_gate_up, experts_up, experts_down;
  LinearWeights lambda_projection;                     // [output heads, E], for a lambda per token
  LinearWeights mixer_in, scan_x, scan_dt, mixer_out;  // of a Mamba or memory unit (experiments/model/scan_layers.h)
  ScanParameters scan;                                 // of a Mamba
  std::map<std::string_view, std::vector<float>> vectors;  // the record's, by name: norms and the like
  std::vector<OutputHead> heads;                           // which query, key and value heads belong together
  Mask mask;                                               // which keys a query sees
  std::vector<float> sinks;                                // one per query head, or none
  std::vector<float> lambda;  // if the weights alone determine it: one number, or one per output head
  std::optional<float> lambda_init;
};

LinearWeights& WeightsOf(LayerWeights& weights, const LinearLayer& linear);
const LinearWeights& WeightsOf(const LayerWeights& weights, const LinearLayer& linear);

class PackedFile;

// How a plan's weights are prepared.
struct Planning {
  const ResolvedPlan& plan;
  Math math = Math::kF32;
  int64_t most_kept = 0;                         // experts of a model with more values are prepared when they are used
  RoundedCopies rounded = RoundedCopies::kKept;  // of the others
  const PackedFile* packed = nullptr;            // what has their packed codes; null: nothing
};

// Prepares the layer's weights for the plan, until the next call.
void PlanLayer(LayerWeights& weights, const ModelConfig& config, int layer, const Planning& planning);

// Loads what the family's record lists, with its head table and the layer's mask.
LayerWeights LoadLayer(Weights& weights, const ModelConfig& config, int layer);
// weight + offset, for norms that multiply by 1 + w.
std::vector<float> Offset(std::vector<float> weight, float offset);
// lambda of all tokens, if the weights alone determine it.
LambdaView LambdaOf(const LayerWeights& weights);

// Of layers with a scan; C channels, N states.
struct ScanActivations {
  AlignedBuffer<float> mixed;      // [R, 2 C] in_proj's rows: what is scanned, and the gate
  AlignedBuffer<float> u, delta;   // [R, C] what the scan reads
  AlignedBuffer<float> projected;  // [R, rank + 2 N] x_proj's rows
  AlignedBuffer<float> rank;       // [R, rank]
  AlignedBuffer<float> b, c;       // [R, N]
  AlignedBuffer<float> gate;       // [R, C]
  AlignedBuffer<float> gated;      // [R, C]
  AlignedBuffer<float> memory;     // [R, C] the last scan's output: stays for the memory units of later layers

  void Prepare(int64_t rows, const ModelConfig& config);
};

// Of layers with experts, k of them for each token.
struct ExpertActivations {
  std::vector<int32_t> chosen;    // [R, k]
  std::vector<float> shares;      // [R, k] what each adds to the sum
  AlignedBuffer<float> gathered;  // [rows of one expert, E or I]
  AlignedBuffer<float> made, up;  // [rows of one expert, 2 I or I or E] [.., I]
  AlignedBuffer<float> inner;     // [R, k, I] inputs of the down projections
};

struct Activations {
  AlignedBuffer<float> x;                          // [R, E] the residual stream
  AlignedBuffer<float> normed;                     // [R, E]
  AlignedBuffer<float> q, k, v;                    // [R, H d] [R, G d] [R, G d]; k, v stay for layers that share them
  AlignedBuffer<float> q_and_gate;                 // [R, G, H/G (d + gates)]: q_proj's rows, if the model has a gate
  AlignedBuffer<float> attn_gate;                  // [R, H, gates]
  AlignedBuffer<float> lambda;                     // [R, output heads], for a lambda per token
  AlignedBuffer<float> attended;                   // [R, A]
  AlignedBuffer<float> delta;                      // [R, E] added to the stream
  AlignedBuffer<float> gate, up;                   // [R, I]
  ScanActivations scan;                            // of layers with a scan
  ExpertActivations experts;                       // of layers with experts
  AlignedBuffer<float> seen;                       // [R, E or I] a copy of a projection's input, for its visitors
  AlignedBuffer<float> own_inputs;                 // [R, E or I] the same in the order of a matrix's codes, or rotated
  std::array<AlignedBuffer<char>, 3> dequantized;  // weights of one input of which only codes are kept: at most q, k, v
  ExecutedMemory executed;                         // of the sequence that executed attention passes
  AlignedBuffer<std::byte> workspace;              // for executed attention
  DecodeScratch decode;                            // for attention over caches
  QuantizedLinear quantized;                       // for executed linear layers
  OneTokenProjector one_token;                     // for quantized weights with f32 inputs, one row at a time
  std::vector<int64_t> positions;                  // [R] in the sequence
  std::vector<int64_t> lengths;                    // [R] tokens of the sequence (TokenBatch::Length)

  void Prepare(const TokenBatch& batch, const ModelConfig& config);
};

// All data of one layer's forward pass.
struct LayerCall {
  const ModelConfig& config;
  const LayerWeights& weights;
  const TokenBatch& batch;
  const RotaryTable& rotary;
  Projector& projector;
  SiteVisitors visitors;
  const ExecutedPlan* attention;  // on the integer kernels, over caches of prompts alone; null: in f32
  int layer;
  Activations& a;
  LayerPart* part = nullptr;  // the steps that run; null: all

  bool Runs() const { return part == nullptr || part->Runs(); }
};

void NormRows(const LayerCall& call, const std::vector<float>& weight);  // normed = norm(x) * weight
void LayerNormRows(const LayerCall& call, const std::vector<float>& weight, const std::vector<float>& bias);
void TakeRows(const LayerCall& call);    // normed = x
void ProjectQkv(const LayerCall& call);  // q, k, v = W normed + b; the gate, if any
// q = norm(q) * q_weight, and likewise k: per head if the weight has a head's width, else over all heads of a token.
void NormQk(const LayerCall& call, const std::vector<float>& q_weight, const std::vector<float>& k_weight);
void RotateQk(const LayerCall& call);             // rotary embedding of q and k, in layers that have it
LambdaView ProjectLambda(const LayerCall& call);  // sigmoid(W normed + b), of each token and output head
// The layer's attention over all rows of the batch: q [R, H d], k and v [R, G d], out [R, A].
AttentionProblem AttentionOf(const LayerCall& call, const float* q, const float* k, const float* v, LambdaView lambda,
                             float* out);
// attended = the head table's attention; lambda: for heads with two maps.
void Attend(const LayerCall& call, LambdaView lambda = {});
void GateHeads(const LayerCall& call);      // attended *= sigmoid(gate)
void ProjectOutput(const LayerCall& call);  // delta = W_o attended + b
// delta = W_down unit(W_gate normed, W_up normed): unit(gate, up, n) leaves its result in gate.
using GatedUnit = std::function<void(float* gate, const float* up, size_t n)>;
void FeedForward(const LayerCall& call, const GatedUnit& unit = SwiGlu);
// delta = W_down f(W_up normed), f in place: Gelu, QuickGelu.
using Activation = void (*)(float* row, size_t n);
void FeedForwardUngated(const LayerCall& call, Activation f);
void NormDelta(const LayerCall& call, const std::vector<float>& weight);  // delta = norm(delta) * weight
void AddDelta(const LayerCall& call);                                     // x += residual_scale delta

}  // namespace tare
