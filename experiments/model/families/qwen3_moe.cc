// SPDX-License-Identifier: Apache-2.0
// Qwen3-MoE (modeling_qwen3_moe.py): attention as qwen3's, and experts in the place of the feed-forward
// (experiments/model/expert_layers.h). With norm_topk_prob the shares of a token's experts sum to 1, else they are
// those of a softmax over all. A configuration where some layers have no experts is refused.
#include "experiments/model/expert_layers.h"
#include "experiments/model/families/experts.h"
#include "experiments/model/families/table.h"

namespace tare {
namespace {

constexpr RouterNames kQwen3MoeRouter{.weight = "mlp.gate.weight", .bias = {}};

void ReadQwen3Moe(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  c.mlp_bias = false;
  c.windows = ReadQwenWindows(keys, c.layers);
  if (!keys.Has("head_dim")) c.head_dim = 128;
  c.qk_norm = true;
  c.ffn = keys.Integer("moe_intermediate_size", 1, 768);
  c.shares_sum = keys.Flag("norm_topk_prob", false);
  keys.Refuse("decoder_sparse_step", {"1"});
  keys.Refuse("mlp_only_layers", {"[]"});
  ReadExperts(keys, c, {.experts = 128, .chosen = 8});
}

void Qwen3MoeForward(const LayerCall& call) {
  const auto& vectors = call.weights.vectors;
  NormRows(call, vectors.at(kInputNorm));
  ProjectQkv(call);
  NormQk(call, vectors.at(kQNorm), vectors.at(kKNorm));
  RotateQk(call);
  Attend(call);
  ProjectOutput(call);
  AddDelta(call);
  NormRows(call, vectors.at(kPostAttentionNorm));
  FeedExperts(call, kQwen3MoeRouter, ExpertSwiGlu);
  AddDelta(call);
}

constexpr auto kQwen3MoeLinear =
    WithExperts("mlp.experts.{}.gate_proj", "mlp.experts.{}.up_proj", "mlp.experts.{}.down_proj");
constexpr auto kQwen3MoeVectors =
    Joined(kLlamaVectors, kQkNormVectors, std::array{RouterPlace(kQwen3MoeRouter.weight)});
constexpr Site kQwen3MoeSmoothed[]{Site::kQProjIn, Site::kExpertsGateUpIn, Site::kOProjIn};

}  // namespace

constinit const Family kQwen3Moe = Changed(kLlama, [](Family& f) {
  f.name = "qwen3_moe";
  f.examples = "Qwen/Qwen3-30B-A3B";
  f.read = ReadQwen3Moe;
  f.linear = kQwen3MoeLinear;
  f.vectors = kQwen3MoeVectors;
  f.forward = Qwen3MoeForward;
  f.smoothed = kQwen3MoeSmoothed;
});

}  // namespace tare
