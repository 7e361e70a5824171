// SPDX-License-Identifier: Apache-2.0
// Qwen3: as llama, with norms of each head's queries and keys before rotary positions, windows as in qwen2, and, if the
// configuration has it, a sigmoid gate, one per head (headwise) or per value (elementwise):
//   x += W_o (softmax(rope(norm(Q)) rope(norm(K))^T / sqrt(d)) V * sigmoid(Z)),   Q, Z, K, V of norm(x)
// Q and Z are rows of q_proj: for each key/value head, the queries of its group, then their gates.
#include "experiments/model/families/llama.h"
#include "experiments/model/families/table.h"
#include "quant/base/error.h"

namespace tare {
namespace {

void ReadQwen3Config(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  c.windows = ReadQwenWindows(keys, c.layers);
  if (!keys.Has("head_dim")) c.head_dim = 128;
  c.mlp_bias = false;
  c.attention_bias = keys.Flag("qkv_bias", c.attention_bias);  // of the gate's authors
  if (!keys.Flag("use_qk_norm", true)) Fail("{}: use_qk_norm: false is not supported", keys.where());
  c.qk_norm = true;
  if (keys.Flag("headwise_attn_output_gate", false)) {
    keys.Refuse("elementwise_attn_output_gate");
    c.gate = OutputGate::kPerHead;
  } else if (keys.Flag("elementwise_attn_output_gate", false)) {
    c.gate = OutputGate::kPerValue;
  }
}

}  // namespace

void Qwen3Forward(const LayerCall& call) {
  const auto& vectors = call.weights.vectors;
  NormRows(call, vectors.at(kInputNorm));
  ProjectQkv(call);
  NormQk(call, vectors.at(kQNorm), vectors.at(kKNorm));
  RotateQk(call);
  Attend(call);
  if (call.config.gate != OutputGate::kNone) GateHeads(call);
  ProjectOutput(call);
  AddDelta(call);
  NormRows(call, vectors.at(kPostAttentionNorm));
  FeedForward(call);
  AddDelta(call);
}

namespace {

constexpr auto kQwen3Vectors = Joined(kLlamaVectors, kQkNormVectors);

}  // namespace

// A gate per value between V and o_proj forbids rotating the values of a head.
constinit const Family kQwen3 = Changed(kLlama, [](Family& f) {
  f.name = "qwen3";
  f.examples = "Qwen/Qwen3-0.6B to 8B; QwQZh/gated_attention (site attn_gate)";
  f.read = ReadQwen3Config;
  f.vectors = kQwen3Vectors;
  f.forward = Qwen3Forward;
  f.rotation = Rotation::kStream;
});

}  // namespace tare
