// SPDX-License-Identifier: Apache-2.0
// Qwen2: as llama, with biases only for q, k and v; with use_sliding_window, layers from max_window_layers on see a
// window of keys.
#include "experiments/model/families/qwen2.h"

#include "experiments/model/families/llama.h"
#include "experiments/model/families/table.h"

namespace tare {
namespace {

void Read(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  keys.Refuse("use_mrope");
  ReadQwenWindows(keys, c);
  c.attention_bias = true;  // whatever a key says
  c.mlp_bias = false;
}

constexpr auto kLinear = Changed(kLlamaLinear, [](auto& places) { At(places, Site::kOProjW).bias = nullptr; });

}  // namespace

void ReadQwenWindows(const ConfigKeys& keys, ModelConfig& c) {
  const int window = keys.Flag("use_sliding_window", false) ? ReadWindow(keys, 4096) : 0;
  const int first = keys.Integer("max_window_layers", 0, 28);
  c.windows = ReadWindows(keys, c.layers, window, [first](int layer) { return layer >= first; });
}

constinit const Family kQwen2 = Changed(kLlama, [](Family& f) {
  f.name = "qwen2";
  f.read = Read;
  f.linear = kLinear;
});

}  // namespace tare
