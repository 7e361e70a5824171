// SPDX-License-Identifier: Apache-2.0
// Qwen2: as llama, with biases of q, k and v and none of others; where use_sliding_window says so, layers from
// max_window_layers on see a window of keys.
#include "experiments/model/qwen2.h"

#include "experiments/model/llama.h"

namespace tare {
namespace {

void Read(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  keys.Refuse("use_mrope");
  ReadQwenWindows(keys, c);
  c.attention_bias = true;  // whatever a key says
  c.mlp_bias = false;
}

constexpr LinearPlace kOutput{Site::kOProjW, Site::kOProjIn, "self_attn.o_proj", &LayerWeights::o, nullptr, {}};
constexpr LinearPlace kLinear[]{kLlamaLinear[0], kLlamaLinear[1], kLlamaLinear[2], kOutput,
                                kLlamaLinear[4], kLlamaLinear[5], kLlamaLinear[6]};

}  // namespace

void ReadQwenWindows(const ConfigKeys& keys, ModelConfig& c) {
  const int window = keys.Flag("use_sliding_window", false) ? ReadWindow(keys, 4096) : 0;
  const int first = keys.Integer("max_window_layers", 0, 28);
  c.windows = ReadWindows(keys, c.layers, window, [first](int layer) { return layer >= first; });
}

const Family kQwen2{.name = "qwen2",
                    .read = Read,
                    .names = kLlamaNames,
                    .linear = kLinear,
                    .vectors = kLlamaVectors,
                    .heads = LlamaHeads,
                    .load = LoadLlamaLayer,
                    .forward = LlamaForward,
                    .rotation = Rotation::kStreamAndValues,
                    .smoothed = kLlamaSmoothed};

}  // namespace tare
