// SPDX-License-Identifier: Apache-2.0
// Mistral: as llama without biases, and each query sees the last sliding_window keys (4096 if the key is missing, all
// if it is null). Ministral: the same in the layers that layer_types says, in all of them without it.
#include "experiments/model/families/llama.h"
#include "experiments/model/families/table.h"

namespace tare {
namespace {

void ReadMinistral(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  c.attention_bias = c.mlp_bias = false;  // whatever a key says
  c.windows = ReadWindows(keys, c.layers, ReadWindow(keys, 4096), [](int) { return true; });
}

void ReadMistral(const ConfigKeys& keys, ModelConfig& c) {
  keys.Refuse("layer_types");
  ReadMinistral(keys, c);
}

}  // namespace

constinit const Family kMistral = Changed(kLlama, [](Family& f) {
  f.name = "mistral";
  f.examples = "mistralai/Mistral-7B-v0.1";
  f.read = ReadMistral;
});

constinit const Family kMinistral = Changed(kLlama, [](Family& f) {
  f.name = "ministral";
  f.examples = "as mistral, with layer_types";
  f.read = ReadMinistral;
});

}  // namespace tare
