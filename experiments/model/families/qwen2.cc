// SPDX-License-Identifier: Apache-2.0
// Qwen2 (Qwen 1.5, 2 and 2.5): as llama, with biases only for q, k and v; with use_sliding_window, layers from
// max_window_layers on see a window of keys.
#include "experiments/model/families/llama.h"
#include "experiments/model/families/table.h"

namespace tare {
namespace {

void ReadQwen2Config(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  keys.Refuse("use_mrope");
  c.windows = ReadQwenWindows(keys, c.layers);
  c.attention_bias = true;  // whatever a key says
  c.mlp_bias = false;
}

constexpr auto kQwen2Linear = Changed(kLlamaLinear, [](auto& places) { At(places, Site::kOProjW).bias = nullptr; });

}  // namespace

constinit const Family kQwen2 = Changed(kLlama, [](Family& f) {
  f.name = "qwen2";
  f.examples = "Qwen/Qwen2.5-0.5B to 7B";
  f.read = ReadQwen2Config;
  f.linear = kQwen2Linear;
});

}  // namespace tare
