// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/families/differential.h"

#include <cmath>
#include <numeric>

#include "experiments/model/families/llama.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"

namespace tare {
namespace {

float ExpOfDot(const LayerWeights& w, std::string_view q, std::string_view k) {
  const std::vector<float>&a = w.vectors.at(q), &b = w.vectors.at(k);
  return std::exp(std::inner_product(a.begin(), a.end(), b.begin(), 0.0f));
}

}  // namespace

float LambdaInit(int depth) { return static_cast<float>(0.8 - 0.6 * std::exp(-0.3 * depth)); }

void SetLambda(LayerWeights& w, float lambda_init, const LambdaNames& names) {
  w.lambda_init = lambda_init;
  w.lambda = {ExpOfDot(w, names.q1, names.k1) - ExpOfDot(w, names.q2, names.k2) + lambda_init};
}

void RequireEven(const ConfigKeys& keys, const char* key, int heads) {
  if (heads % 2 != 0)
    Fail("{}: {}: got {}, expected an even number: a differential head has two maps", keys.where(), key, heads);
}

float HeadNormEps(const ModelConfig& c) { return c.head_norm_eps > 0 ? c.head_norm_eps : c.norm_eps; }

void NormHeads(const LayerCall& call, std::string_view name) {
  const auto heads = static_cast<int64_t>(call.weights.heads.size());
  const int64_t width = 2 * int64_t{call.config.head_dim};
  const auto weight = call.weights.vectors.find(name);
  const float* const scale = weight == call.weights.vectors.end() ? nullptr : weight->second.data();
  ForRows(call, [&](int64_t row) {
    for (int64_t h = 0; h < heads; ++h) {
      float* o = call.a.attended.data() + (row * heads + h) * width;
      RmsNorm(o, scale, HeadNormEps(call.config), width, o);
      ScaleInto(o, 1.0f - *call.weights.lambda_init, width, o);
    }
  });
}

void AddDifferentialAttention(const LayerCall& call) {
  NormRows(call, call.weights.vectors.at(kInputNorm));
  ProjectQkv(call);
  RotateQk(call);
  Attend(call, LambdaOf(call.weights));
  NormHeads(call);
  ProjectOutput(call);
  AddDelta(call);
}

LayerWeights LoadDifferentialLayer(Weights& weights, const ModelConfig& config, int layer) {
  LayerWeights w = LoadLlamaLayer(weights, config, layer);
  SetLambda(w, config.lambda_init.value_or(LambdaInit(layer)));
  return w;
}

void DifferentialForward(const LayerCall& call) {
  AddDifferentialAttention(call);
  NormRows(call, call.weights.vectors.at(kPostAttentionNorm));
  FeedForward(call);
  AddDelta(call);
}

}  // namespace tare
