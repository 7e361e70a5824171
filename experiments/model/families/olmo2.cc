// SPDX-License-Identifier: Apache-2.0
// OLMo 2: norms follow the blocks, and those of queries and keys cover all heads of a token.
//   x += norm(W_o softmax(rope(norm(Q)) rope(norm(K))^T / sqrt(d)) V),  Q, K, V of x;   x += norm(FFN(x))
#include "experiments/model/families/llama.h"
#include "experiments/model/families/table.h"

namespace tare {
namespace {

constexpr std::string_view kPostFeedForwardNorm = "post_feedforward_layernorm.weight";

void Read(const ConfigKeys& keys, ModelConfig& c) {
  ReadLlamaConfig(keys, c);
  keys.Refuse("clip_qkv");
  keys.Refuse("layer_types");
  c.mlp_bias = false;
  c.qk_norm = true;
}

void Forward(const LayerCall& call) {
  const auto& vectors = call.weights.vectors;
  TakeRows(call);
  ProjectQkv(call);
  NormQk(call, vectors.at(kQNorm), vectors.at(kKNorm));
  RotateQk(call);
  Attend(call);
  ProjectOutput(call);
  NormDelta(call, vectors.at(kPostAttentionNorm));
  AddDelta(call);
  TakeRows(call);
  FeedForward(call);
  NormDelta(call, vectors.at(kPostFeedForwardNorm));
  AddDelta(call);
}

// There is no norm before a block.
constexpr auto kLinear = Changed(kLlamaLinear, [](auto& places) {
  for (LinearPlace& place : places) place.norm = {};
});

std::vector<int64_t> QueriesShape(const ModelConfig& c) { return {int64_t{c.heads} * c.head_dim}; }
std::vector<int64_t> KeysShape(const ModelConfig& c) { return {int64_t{c.kv_heads} * c.head_dim}; }
constexpr VectorPlace kVectors[]{{kQNorm, QueriesShape, 1, 0},
                                 {kKNorm, KeysShape, 1, 0},
                                 {kPostAttentionNorm, HiddenShape, 1, 0},
                                 {kPostFeedForwardNorm, HiddenShape, 1, 0}};

constexpr Site kSmoothed[]{Site::kDownProjIn, Site::kOProjIn};

}  // namespace

constinit const Family kOlmo2 = Changed(kLlama, [](Family& f) {
  f.name = "olmo2";
  f.read = Read;
  f.linear = kLinear;
  f.vectors = kVectors;
  f.forward = Forward;
  f.rotation = Rotation::kNone;
  f.smoothed = kSmoothed;
});

}  // namespace tare
