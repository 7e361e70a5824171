// SPDX-License-Identifier: Apache-2.0
// DiffLlama: as llama, but a head j < H/2 has the maps j and j + H/2 of q and k and the values of both side by side,
//   O_j = (1 - lambda_init) norm((softmax(Q_j K_j^T / sqrt(d)) - lambda softmax(Q_j' K_j'^T / sqrt(d))) [V_j, V_j'])
// with a head norm over 2d that has no weight, and
//   lambda = exp(lambda_q1 . lambda_k1) - exp(lambda_q2 . lambda_k2) + lambda_init      one per layer
#include "experiments/model/diffllama.h"

#include <cmath>
#include <numeric>

#include "experiments/model/llama.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr std::string_view kQ1 = "self_attn.lambda_q1", kK1 = "self_attn.lambda_k1";
constexpr std::string_view kQ2 = "self_attn.lambda_q2", kK2 = "self_attn.lambda_k2";
std::vector<int64_t> HeadShape(const ModelConfig& c) { return {c.head_dim}; }
constexpr VectorPlace kVectors[]{kLlamaVectors[0],          kLlamaVectors[1],          {kQ1, HeadShape, 0, 0.1f},
                                 {kK1, HeadShape, 0, 0.1f}, {kQ2, HeadShape, 0, 0.1f}, {kK2, HeadShape, 0, 0.1f}};

void Read(const ConfigKeys& keys, ModelConfig& c) {
  ReadLlamaConfig(keys, c);
  c.mlp_bias = false;  // transformers' DiffLlama has none, whatever the key says
  if (c.heads % 2 != 0) {
    Fail("{}: num_attention_heads: got {}, expected an even number: a differential head has two maps", keys.where(),
         c.heads);
  }
}

std::vector<OutputHead> Heads(const ModelConfig& c) { return DiffLlamaHeads(c.heads, c.kv_heads); }

float ExpOfDot(const LayerWeights& w, std::string_view q, std::string_view k) {
  const std::vector<float>&a = w.vectors.at(q), &b = w.vectors.at(k);
  return std::exp(std::inner_product(a.begin(), a.end(), b.begin(), 0.0f));
}

LayerWeights Load(Weights& weights, const ModelConfig& config, int layer) {
  LayerWeights w = LoadLlamaLayer(weights, config, layer);
  w.lambda_init = LambdaInit(layer);
  w.lambda = {ExpOfDot(w, kQ1, kK1) - ExpOfDot(w, kQ2, kK2) + *w.lambda_init};
  return w;
}

void NormHeads(const LayerCall& call) {
  const auto heads = static_cast<int64_t>(call.weights.heads.size());
  const int64_t width = 2 * int64_t{call.config.head_dim};
  ParallelFor(static_cast<size_t>(call.batch.Rows()), [&](size_t row, int) {
    for (int64_t h = 0; h < heads; ++h) {
      float* o = call.a.attended.data() + (static_cast<int64_t>(row) * heads + h) * width;
      RmsNorm(o, nullptr, call.config.norm_eps, width, o);
      ScaleInto(o, 1.0f - *call.weights.lambda_init, width, o);
    }
  });
}

void Forward(const LayerCall& call) {
  NormRows(call, call.weights.vectors.at(kInputNorm));
  ProjectQkv(call);
  RotateQk(call);
  Attend(call, LambdaOf(call.weights));
  NormHeads(call);
  ProjectOutput(call);
  AddDelta(call);
  NormRows(call, call.weights.vectors.at(kPostAttentionNorm));
  FeedForward(call);
  AddDelta(call);
}

constexpr Site kSmoothed[]{Site::kQProjIn, Site::kGateProjIn, Site::kDownProjIn};  // the head norm is before o_proj

}  // namespace

float LambdaInit(int layer) { return static_cast<float>(0.8 - 0.6 * std::exp(-0.3 * layer)); }

// The head norm has no weight: it sees no rotation of a head's values.
const Family kDiffLlama{.name = "diffllama",
                        .read = Read,
                        .names = kLlamaNames,
                        .linear = kLlamaLinear,
                        .vectors = kVectors,
                        .heads = Heads,
                        .load = Load,
                        .forward = Forward,
                        .rotation = Rotation::kStreamAndValues,
                        .smoothed = kSmoothed};

}  // namespace tare
