// SPDX-License-Identifier: Apache-2.0
// OLMo 2: norms stand after the blocks, and those of queries and keys go over all heads of a token.
//   x += norm(W_o softmax(rope(norm(Q)) rope(norm(K))^T / sqrt(d)) V),  Q, K, V of x;   x += norm(FFN(x))
#include "experiments/model/olmo2.h"

#include "experiments/model/llama.h"
#include "experiments/model/qwen3.h"

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

// No norm stands before them.
constexpr LinearPlace OfStream(LinearPlace place) {
  place.norm = {};
  return place;
}
constexpr LinearPlace kLinear[]{OfStream(kLlamaLinear[0]),
                                OfStream(kLlamaLinear[1]),
                                OfStream(kLlamaLinear[2]),
                                kLlamaLinear[3],
                                OfStream(kLlamaLinear[4]),
                                OfStream(kLlamaLinear[5]),
                                kLlamaLinear[6]};

std::vector<int64_t> QueriesShape(const ModelConfig& c) { return {int64_t{c.heads} * c.head_dim}; }
std::vector<int64_t> KeysShape(const ModelConfig& c) { return {int64_t{c.kv_heads} * c.head_dim}; }
constexpr VectorPlace kVectors[]{{kQNorm, QueriesShape, 1, 0},
                                 {kKNorm, KeysShape, 1, 0},
                                 {kPostAttentionNorm, HiddenShape, 1, 0},
                                 {kPostFeedForwardNorm, HiddenShape, 1, 0}};

constexpr Site kSmoothed[]{Site::kDownProjIn, Site::kOProjIn};

}  // namespace

const Family kOlmo2{.name = "olmo2",
                    .read = Read,
                    .names = kLlamaNames,
                    .linear = kLinear,
                    .vectors = kVectors,
                    .heads = LlamaHeads,
                    .load = LoadLlamaLayer,
                    .forward = Forward,
                    .rotation = Rotation::kNone,
                    .smoothed = kSmoothed};

}  // namespace tare
