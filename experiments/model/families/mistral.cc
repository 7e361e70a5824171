// SPDX-License-Identifier: Apache-2.0
// Mistral: as llama without biases, and each query sees the last sliding_window keys (4096 if the key is missing, all
// if it is null).
#include "experiments/model/families/llama.h"
#include "experiments/model/families/table.h"

namespace tare {
namespace {

void Read(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  c.attention_bias = c.mlp_bias = false;  // whatever a key says
  const int window = ReadWindow(keys, 4096);
  keys.Refuse("layer_types");
  if (window > 0) c.windows.assign(static_cast<size_t>(c.layers), window);
}

}  // namespace

constinit const Family kMistral = Changed(kLlama, [](Family& f) {
  f.name = "mistral";
  f.read = Read;
});

}  // namespace tare
