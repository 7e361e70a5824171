// SPDX-License-Identifier: Apache-2.0
// A family that exists only for toy_family_test.cc and differs from the others wherever a record allows: no positions
// but a sliding window, a norm after each half of a layer and none before, three query heads per key/value head with
// neighbours as the two maps of a head (so that some heads' maps see different keys), one lambda per output head, its
// own names.
//
//   x += norm(W_o [softmax(q_2h K^T / sqrt(d)) - lambda_h softmax(q_2h+1 K'^T / sqrt(d))] V);   x += norm(FFN(x))
#pragma once

#include <algorithm>

#include "experiments/model/config/config.h"
#include "experiments/model/decoder.h"
#include "kernels/elementwise/rows.h"

namespace tare::toy {

inline constexpr int64_t kWindow = 5;
inline constexpr std::string_view kAfterMixing = "mix/gain", kAfterFfn = "ffn/gain", kLambda = "mix/lambda";

inline void Read(const ConfigKeys& keys, ModelConfig& c) {
  keys.Refuse("mlp_bias");
  c.norm_eps = static_cast<float>(keys.Positive("rms_norm_eps"));
}

inline std::vector<OutputHead> Heads(const ModelConfig& c) {
  const int group = c.heads / c.kv_heads;
  std::vector<OutputHead> table;
  for (int q = 0; q + 1 < c.heads; q += 2) {
    const int k1 = q / group, k2 = (q + 1) / group;
    table.push_back({.q1 = q, .k1 = k1, .q2 = q + 1, .k2 = k2, .v = {k1, kNoMap}});
  }
  return table;
}

inline LayerWeights Load(Weights& weights, const ModelConfig& config, int layer) {
  LayerWeights w = LoadLayer(weights, config, layer);
  w.lambda = w.vectors.at(kLambda);
  w.mask = {Mask::Kind::kWindow, kWindow};
  return w;
}

inline void TakeStream(const LayerCall& call) {
  std::copy_n(call.a.x.data(), call.batch.Rows() * call.config.hidden, call.a.normed.data());
}

inline void AddNormed(const LayerCall& call, std::string_view gain) {
  const int64_t E = call.config.hidden;
  for (int64_t row = 0; row < call.batch.Rows(); ++row) {
    float* const delta = call.a.delta.data() + row * E;
    RmsNorm(delta, call.weights.vectors.at(gain).data(), call.config.norm_eps, E, delta);
  }
  AddDelta(call);
}

inline void Forward(const LayerCall& call) {
  TakeStream(call);
  ProjectQkv(call);
  Attend(call, LambdaOf(call.weights));
  ProjectOutput(call);
  AddNormed(call, kAfterMixing);
  TakeStream(call);
  FeedForward(call);
  AddNormed(call, kAfterFfn);
}

inline constexpr LinearPlace kLinear[]{
    {Site::kQProjW, "mix/asks", &LayerWeights::q, nullptr, {}},
    {Site::kKProjW, "mix/offers", &LayerWeights::k, nullptr, {}},
    {Site::kVProjW, "mix/gives", &LayerWeights::v, nullptr, {}},
    {Site::kOProjW, "mix/returns", &LayerWeights::o, nullptr, {}},
    {Site::kGateProjW, "ffn/opens", &LayerWeights::gate, nullptr, {}},
    {Site::kUpProjW, "ffn/widens", &LayerWeights::up, nullptr, {}},
    {Site::kDownProjW, "ffn/narrows", &LayerWeights::down, nullptr, {}},
};

inline std::vector<int64_t> OfStream(const ModelConfig& c) { return {c.hidden}; }
inline std::vector<int64_t> OfHeads(const ModelConfig& c) { return {std::ssize(Heads(c))}; }
inline constexpr VectorPlace kVectors[]{
    {kAfterMixing, OfStream, 1, 0.1f}, {kAfterFfn, OfStream, 1, 0.1f}, {kLambda, OfHeads, 0.4f, 0.2f}};

inline const Family kFamily{
    .name = "toy",
    .read = Read,
    .names = {.embedding = "rows", .final_norm = "last/gain", .head = "columns", .layer = "floor-"},
    .linear = kLinear,
    .vectors = kVectors,
    .heads = Heads,
    .load = Load,
    .forward = Forward,
    .rotation = Rotation::kNone,
    .smoothed = {}};

}  // namespace tare::toy
