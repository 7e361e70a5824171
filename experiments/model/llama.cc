// SPDX-License-Identifier: Apache-2.0
// Llama:  x += W_o softmax(Q K^T / sqrt(d)) V,  Q, K, V of norm(x);   x += FFN(norm(x)).
#include "experiments/model/llama.h"

namespace tare {

LayerWeights LoadLlamaLayer(Weights& weights, const ModelConfig& config, int layer) {
  LayerWeights w = LoadLayer(weights, config, layer);
  w.heads = StandardHeads(config.heads, config.kv_heads);
  return w;
}

void LlamaLayer(const LayerCall& call) {
  NormRows(call, call.weights.input_norm);
  ProjectQkv(call);
  RotateQk(call);
  Attend(call);
  AddAttentionOutput(call);
  NormRows(call, call.weights.post_attention_norm);
  AddFeedForward(call);
}

}  // namespace tare
