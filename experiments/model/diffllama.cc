// SPDX-License-Identifier: Apache-2.0
// DiffLlama: as llama, but a head j < H/2 has the maps j and j + H/2 of q and k and the values of both side by side,
//   O_j = (1 - lambda_init) norm((softmax(Q_j K_j^T / sqrt(d)) - lambda softmax(Q_j' K_j'^T / sqrt(d))) [V_j, V_j'])
// with a head norm over 2d that has no weight, and
//   lambda = exp(lambda_q1 . lambda_k1) - exp(lambda_q2 . lambda_k2) + lambda_init      one per layer
#include "experiments/model/diffllama.h"

#include <cmath>
#include <format>
#include <numeric>

#include "kernels/elementwise/rows.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

float DotOf(Weights& weights, const std::string& prefix, const char* q, const char* k, int d) {
  const std::vector<float> a = weights.Vector(prefix + q, d), b = weights.Vector(prefix + k, d);
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0f);
}

void NormHeads(const LayerCall& call) {
  const auto heads = static_cast<int64_t>(call.weights.heads.size());
  const int64_t width = 2 * int64_t{call.config.head_dim};
  ParallelFor(static_cast<size_t>(call.batch.Rows()), [&](size_t row, int) {
    for (int64_t h = 0; h < heads; ++h) {
      float* o = call.a.attended.data() + (static_cast<int64_t>(row) * heads + h) * width;
      RmsNorm(o, nullptr, call.config.norm_eps, width, o);
      ScaleInto(o, 1.0f - call.weights.lambda_init, width, o);
    }
  });
}

}  // namespace

float LambdaInit(int layer) { return static_cast<float>(0.8 - 0.6 * std::exp(-0.3 * layer)); }

LayerWeights LoadDiffLlamaLayer(Weights& weights, const ModelConfig& config, int layer) {
  LayerWeights w = LoadLayer(weights, config, layer);
  const std::string prefix = std::format("model.layers.{}.self_attn.", layer);
  w.heads = DiffLlamaHeads(config.heads, config.kv_heads);
  w.lambda_init = LambdaInit(layer);
  w.lambda = std::exp(DotOf(weights, prefix, "lambda_q1", "lambda_k1", config.head_dim)) -
             std::exp(DotOf(weights, prefix, "lambda_q2", "lambda_k2", config.head_dim)) + w.lambda_init;
  return w;
}

void DiffLlamaLayer(const LayerCall& call) {
  NormRows(call, call.weights.input_norm);
  ProjectQkv(call);
  RotateQk(call);
  Attend(call);
  NormHeads(call);
  AddAttentionOutput(call);
  NormRows(call, call.weights.post_attention_norm);
  AddFeedForward(call);
}

}  // namespace tare
