// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/families/differential.h"

#include <cmath>
#include <numeric>

#include "experiments/model/families/llama.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

float ExpOfDot(const LayerWeights& w, std::string_view q, std::string_view k) {
  const std::vector<float>&a = w.vectors.at(q), &b = w.vectors.at(k);
  return std::exp(std::inner_product(a.begin(), a.end(), b.begin(), 0.0f));
}

}  // namespace

float LambdaInit(int depth) { return static_cast<float>(0.8 - 0.6 * std::exp(-0.3 * depth)); }

void SetLambda(LayerWeights& w, float lambda_init) {
  w.lambda_init = lambda_init;
  w.lambda = {ExpOfDot(w, kLambdaQ1, kLambdaK1) - ExpOfDot(w, kLambdaQ2, kLambdaK2) + lambda_init};
}

void NormHeads(const LayerCall& call, const std::vector<float>* weight, float eps) {
  const auto heads = static_cast<int64_t>(call.weights.heads.size());
  const int64_t width = 2 * int64_t{call.config.head_dim};
  ParallelFor(static_cast<size_t>(call.batch.Rows()), [&](size_t row, int) {
    for (int64_t h = 0; h < heads; ++h) {
      float* o = call.a.attended.data() + (static_cast<int64_t>(row) * heads + h) * width;
      RmsNorm(o, weight == nullptr ? nullptr : weight->data(), eps, width, o);
      ScaleInto(o, 1.0f - *call.weights.lambda_init, width, o);
    }
  });
}

void AddDifferentialAttention(const LayerCall& call, const std::vector<float>* weight, float eps) {
  NormRows(call, call.weights.vectors.at(kInputNorm));
  ProjectQkv(call);
  RotateQk(call);
  Attend(call, LambdaOf(call.weights));
  NormHeads(call, weight, eps);
  ProjectOutput(call);
  AddDelta(call);
}

}  // namespace tare
