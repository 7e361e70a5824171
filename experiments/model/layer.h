// SPDX-License-Identifier: Apache-2.0
// The data of a model's layers: their weights, one batch's activations, and all of one layer's forward pass. Legend: R
// rows of the batch (all its tokens), E hidden, I FFN, H query heads, G key/value heads, d head width, A width of
// attention's output (H d, or as the head table gives it).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "experiments/model/attention/cached_attention.h"
#include "experiments/model/attention/rotary.h"
#include "experiments/model/batch.h"
#include "experiments/model/config/config.h"
#include "experiments/model/config/family.h"
#include "experiments/model/layer_part.h"
#include "experiments/model/linear/linear_weights.h"
#include "experiments/model/linear/weights.h"
#include "experiments/plan/executed_plan.h"
#include "kernels/scan/selective_scan.h"
#include "quant/base/aligned.h"

namespace tare {

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

// What stands ready of weights under a plan: of a model's experts, and of its other layers.
struct KeptOfLayers {
  Kept experts, others;
};

// The layer's weights follow the plan from now on.
void PlanLayer(LayerWeights& weights, const ModelConfig& config, int layer, const ResolvedPlan& plan, Math math,
               const KeptOfLayers& kept);

// Loads what the family's record lists, with its head table and the layer's mask.
LayerWeights LoadLayer(Weights& weights, const ModelConfig& config, int layer);
// weight + offset, for norms that multiply by 1 + w.
std::vector<float> Offset(std::vector<float> weight, float offset);
// lambda of all tokens, if the weights alone determine it.
LambdaView LambdaOf(const LayerWeights& weights);

// What layers with a scan compute; C channels, N states.
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

// What layers with experts compute, k experts for each token.
struct ExpertActivations {
  std::vector<int32_t> chosen;    // [R, k]
  std::vector<float> shares;      // [R, k] what each adds to the sum
  AlignedBuffer<float> gathered;  // [rows of one expert, E or I]
  AlignedBuffer<float> made, up;  // [rows of one expert, 2 I or I or E] [.., I]
  AlignedBuffer<float> inner;     // [R, k, I] inputs of the down projections
};

struct Activations {
  AlignedBuffer<float> x;              // [R, E] the residual stream
  AlignedBuffer<float> normed;         // [R, E]
  AlignedBuffer<float> q, k, v;        // [R, H d] [R, G d] [R, G d]; k, v stay for layers that share them
  AlignedBuffer<float> q_and_gate;     // [R, G, H/G (d + gates)]: q_proj's rows, if the model has a gate
  AlignedBuffer<float> attn_gate;      // [R, H, gates]
  AlignedBuffer<float> lambda;         // [R, output heads], for a lambda per token
  AlignedBuffer<float> attended;       // [R, A]
  AlignedBuffer<float> delta;          // [R, E] added to the stream
  AlignedBuffer<float> gate, up;       // [R, I]
  ScanActivations scan;                // of layers with a scan
  ExpertActivations experts;           // of layers with experts
  AlignedBuffer<float> seen;           // [R, E or I] a copy of a projection's input, for its visitors
  ExecutedMemory executed;             // of the sequence that executed attention passes
  AlignedBuffer<std::byte> workspace;  // for executed attention
  DecodeScratch decode;                // for attention over caches
  std::vector<int64_t> positions;      // [R] in the sequence
  std::vector<int64_t> lengths;        // [R] tokens of the sequence (TokenBatch::Length)

  void Prepare(const TokenBatch& batch, const ModelConfig& config);
};

// All data of one layer's forward pass.
struct LayerCall {
  const ModelConfig& config;
  const LayerWeights& weights;
  const TokenBatch& batch;
  const RotaryTable& rotary;
  LinearProducts& products;
  SiteVisitors visitors;
  const ExecutedPlan* attention;  // on the integer kernels, over caches of prompts alone; null: in f32
  int layer;
  Activations& a;
  LayerPart* part = nullptr;  // the steps that run; null: all

  bool Runs() const { return part == nullptr || part->Runs(); }
};

// Holds at least [rows, columns]; zeroed when it grows, so that padding rows hold finite values.
void GrowRows(AlignedBuffer<float>& buffer, int64_t rows, int64_t columns);

}  // namespace tare
