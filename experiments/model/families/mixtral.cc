// SPDX-License-Identifier: Apache-2.0
// Mixtral (modeling_mixtral.py): attention as llama's without biases, over all keys or a window, and experts in the
// place of the feed-forward (experiments/model/expert_layers.h), whose gate, up and down are stored as w1, w3 and w2.
#include "experiments/model/expert_layers.h"
#include "experiments/model/families/experts.h"
#include "experiments/model/families/table.h"

namespace tare {
namespace {

constexpr RouterNames kMixtralRouter{.weight = "block_sparse_moe.gate.weight", .bias = {}};

void ReadMixtral(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  c.attention_bias = c.mlp_bias = false;  // whatever a key says
  if (const int window = ReadWindow(keys, 0); window > 0) c.windows.assign(static_cast<size_t>(c.layers), window);
  keys.Refuse("layer_types");
  ReadExperts(keys, c, {.experts = 8, .chosen = 2});
}

void MixtralForward(const LayerCall& call) {
  NormRows(call, call.weights.vectors.at(kInputNorm));
  ProjectQkv(call);
  RotateQk(call);
  Attend(call);
  ProjectOutput(call);
  AddDelta(call);
  NormRows(call, call.weights.vectors.at(kPostAttentionNorm));
  FeedExperts(call, kMixtralRouter, ExpertSwiGlu);
  AddDelta(call);
}

constexpr auto kMixtralLinear =
    WithExperts("block_sparse_moe.experts.{}.w1", "block_sparse_moe.experts.{}.w3", "block_sparse_moe.experts.{}.w2");
constexpr auto kMixtralVectors = Joined(kLlamaVectors, std::array{RouterPlace(kMixtralRouter.weight)});
constexpr Site kMixtralSmoothed[]{Site::kQProjIn, Site::kExpertsGateUpIn, Site::kOProjIn};

}  // namespace

constinit const Family kMixtral = Changed(kLlama, [](Family& f) {
  f.name = "mixtral";
  f.examples = "mistralai/Mixtral-8x7B-v0.1";
  f.read = ReadMixtral;
  f.linear = kMixtralLinear;
  f.vectors = kMixtralVectors;
  f.forward = MixtralForward;
  f.smoothed = kMixtralSmoothed;
});

}  // namespace tare
