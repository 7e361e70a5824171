// SPDX-License-Identifier: Apache-2.0
// Llama:  x += W_o softmax(Q K^T / sqrt(d)) V,  Q, K, V of norm(x);   x += FFN(norm(x)).
#include "experiments/model/families/llama.h"

#include "quant/base/error.h"

namespace tare {

std::vector<OutputHead> LlamaHeads(const ModelConfig& c) { return StandardHeads(c.heads, c.kv_heads); }

void LlamaForward(const LayerCall& call) {
  NormRows(call, call.weights.vectors.at(kInputNorm));
  ProjectQkv(call);
  RotateQk(call);
  Attend(call);
  ProjectOutput(call);
  AddDelta(call);
  NormRows(call, call.weights.vectors.at(kPostAttentionNorm));
  FeedForward(call);
  AddDelta(call);
}

void CheckActivation(const ConfigKeys& keys, const ModelConfig& c) {
  if (!keys.Has("hidden_act")) return;
  std::string activation = keys.Text("hidden_act");
  if (activation == "swish") activation = "silu";
  const std::string_view expected = FamilyOf(c).activation;
  if (activation != expected)
    Fail("{}: hidden_act: got '{}', expected {} (others are not supported)", keys.where(), activation, expected);
}

void ReadDecoderConfig(const ConfigKeys& keys, ModelConfig& c) {
  CheckActivation(keys, c);
  keys.Refuse("pretraining_tp", {"1"});
  c.norm_eps = static_cast<float>(keys.Positive("rms_norm_eps"));
  c.attention_bias = keys.Flag("attention_bias", false);
  c.mlp_bias = keys.Flag("mlp_bias", false);
  c.rotary = ReadRotary(keys, c.max_positions, c.rotary);
}

void ReadLlamaConfig(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  keys.Refuse("sliding_window");
}

LayerWeights LoadLlamaLayer(Weights& weights, const ModelConfig& config, int layer) {
  // A buffer that old checkpoints carry; recomputed.
  weights.Ignore(LayerTensor(config, layer, "self_attn.rotary_emb.inv_freq"));
  return LoadLayer(weights, config, layer);
}

}  // namespace tare
