// SPDX-License-Identifier: Apache-2.0
// A layer's data: weights, a batch's activations, its forward pass. R rows of the batch (all its tokens), E hidden, I
// FFN, H query heads, G key/value heads, d head width, A width of attention's output (H d, or by the head table).
//
// A part of the steps (LayerPart) goes from the products of one input to where another is known. A caller that takes
// many batches through a layer, and changes weights between two inputs of it, thereby runs no step twice.
//
//   first pass    until o_proj.in     norm, q, k, v, attention; keeps what o_proj reads
//   second pass   from o_proj.in      o_proj, and so on: the steps before it are left out
//
// Steps skip work while Runs is false. A part leaves the stream and what layers share; its caller keeps its input.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "experiments/model/attention/sequence_cache.h"
#include "experiments/model/batch.h"
#include "experiments/model/config/family.h"
#include "experiments/model/linear/linear_weights.h"
#include "experiments/model/linear/weights.h"
#include "experiments/plan/resolved_plan.h"
#include "kernels/scan/selective_scan.h"
#include "quant/base/aligned.h"
#include "quant/base/message.h"
#include "quant/plan/site.h"

namespace tare {

class LayerPart {
 public:
  // from: empty is the first step; given is then the input of that site, [rows, columns]. until: empty is the last
  // step. kept: begins with the input that the part ends before, and may be `given`; null: it is not kept.
  LayerPart(std::optional<Site> from, const AlignedBuffer<float>* given, std::optional<Site> until,
            AlignedBuffer<float>* kept)
      : from_(from), given_(given), until_(until), kept_(kept), runs_(!from) {
    TARE_CHECK(!from || given != nullptr);
  }

  bool Runs() const { return runs_; }

  // Products of x, `count` values, come now. If the part begins at one of these sites, x becomes what is given.
  void Begin(std::span<const Site> sites, float* x, size_t count) {
    if (runs_ || !from_ || !std::ranges::contains(sites, *from_)) return;
    TARE_CHECK(given_->size() >= count);
    std::copy_n(given_->data(), count, x);
    from_.reset();
    runs_ = true;
  }
  bool EndsBefore(std::span<const Site> sites) const {
    return runs_ && until_ && std::ranges::contains(sites, *until_);
  }
  // Visitors have seen x: no later step runs.
  void End(const float* x, size_t count) {
    runs_ = false;
    if (kept_ == nullptr) return;
    kept_->Reserve(count);
    std::copy_n(x, count, kept_->data());
  }

 private:
  std::optional<Site> from_;
  const AlignedBuffer<float>* given_;
  std::optional<Site> until_;
  AlignedBuffer<float>* kept_;
  bool runs_;
};

struct LayerWeights {
  LinearWeights q, k, v, o;      // [H (d + gates), E] [G d, E] [G d, E] [E, A]
  LinearWeights gate, up, down;  // [I, E] [I, E] [E, I]; where there are experts, of the shared one
  // Latents (ModelConfig::q_rank), from which q makes queries: [q rank, E], [kv rank + rotated, E],
  // [G (d - rotated + value width), kv rank], and of gates [A, q rank].
  LinearWeights q_latent, kv_latent, kv, attn_gate;
  // By expert: [2 I, E] or [I, E], with one more such matrix in experts_up; [E, I].
  std::vector<LinearWeights> experts_gate_up, experts_up, experts_down;
  LinearWeights lambda_projection;                     // [output heads, E], for a lambda per token
  LinearWeights mixer_in, scan_x, scan_dt, mixer_out;  // of a Mamba or memory unit (experiments/model/scan_layers.cc)
  ScanParameters scan;                                 // of a Mamba
  LinearWeights second_in, second_out;                 // of the second Mamba of a pair
  ScanParameters second_scan;
  std::map<std::string_view, std::vector<float>> vectors;  // the record's, by name: norms and the like
  std::vector<OutputHead> heads;                           // which query, key and value heads belong together
  Mask mask;                                               // which keys a query sees
  std::vector<float> sinks;                                // one per query head, or none
  std::vector<float> lambda;  // if the weights alone determine it: one number, or one per output head
  std::optional<float> lambda_init;
  std::vector<float> head_norm;  // [2 d] weight of the norm of a differential head's output, or none
};

// Layer: LayerWeights, perhaps constant.
template <typename Layer>
auto& WeightsOf(Layer& weights, const LinearLayer& linear) {
  return linear.expert ? (weights.*linear.place->experts)[static_cast<size_t>(*linear.expert)]
                       : weights.*linear.place->linear;
}

// Loads what the family's record lists, with its head table and the layer's mask.
LayerWeights LoadLayer(Weights& weights, const ModelConfig& config, int layer);
// weight + offset, for norms that multiply by 1 + w.
std::vector<float> Offset(std::vector<float> weight, float offset);
// lambda of all tokens, if the weights alone determine it.
LambdaView LambdaOf(const LayerWeights& weights);

// What layers with a scan compute; C channels, N states, G groups, W channels of a Mamba-2's convolution.
struct ScanActivations {
  AlignedBuffer<float> mixed;      // [R, 2 C] or [R, C + W + heads] in_proj's rows: what is scanned, the gate, the rest
  AlignedBuffer<float> u, delta;   // [R, C] what the scan reads
  AlignedBuffer<float> projected;  // [R, rank + 2 N] x_proj's rows, or [R, W] the convolution's
  AlignedBuffer<float> rank;       // [R, rank], or [R, heads] the steps
  AlignedBuffer<float> b, c;       // [R, G N]
  AlignedBuffer<float> gate;       // [R, C]
  AlignedBuffer<float> gated;      // [R, C]
  AlignedBuffer<float> memory;     // [R, C] the last scan's output: stays for the memory units of later layers
  AlignedBuffer<float> second;     // [R, E] what the second Mamba of a pair makes

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

// What attention makes of latents; both of keys and values keep the rotated channels apart.
struct LatentActivations {
  AlignedBuffer<float> q;                // [R, q rank]
  AlignedBuffer<float> kv;               // [R, kv rank + rotated], as projected
  AlignedBuffer<float> normed, turned;   // [R, kv rank] [R, rotated] of these: what caches hold
  AlignedBuffer<float> keys_and_values;  // [R, G, d - rotated + value width]
};

struct Activations {
  AlignedBuffer<float> x;              // [R, E] the residual stream; or n of them, [R, n, E]
  AlignedBuffer<float> normed;         // [R, E]
  AlignedBuffer<float> q, k, v;        // [R, H d] [R, G d] [R, G d]; k, v stay for layers that share them
  AlignedBuffer<float> q_and_gate;     // [R, G, H/G (d + gates)]: q_proj's rows, if the model has a gate
  AlignedBuffer<float> attn_gate;      // [R, H, gates]
  AlignedBuffer<float> lambda;         // [R, output heads], for a lambda per token
  AlignedBuffer<float> attended;       // [R, A]
  AlignedBuffer<float> delta;          // [R, E] added to the stream
  AlignedBuffer<float> gate, up;       // [R, I]
  LatentActivations latent, held;      // of attention through latents; of all tokens in a cache of them
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
  bool CachesLatents() const { return !batch.caches.empty() && config.CachesLatents(layer); }
};

// Holds at least [rows, columns]; zeroed when it grows, so that padding rows hold finite values.
void GrowRows(AlignedBuffer<float>& buffer, int64_t rows, int64_t columns);

}  // namespace tare
