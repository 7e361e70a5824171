// SPDX-License-Identifier: Apache-2.0
// SmolLM3: as llama, with layers without rotary positions: those that no_rope_layers marks with 0, or every
// no_rope_layer_interval-th. With use_sliding_window these are the layers that see a window of keys, unless layer_types
// says it layer by layer.
#include "experiments/model/families/llama.h"
#include "experiments/model/families/table.h"
#include "quant/base/error.h"

namespace tare {
namespace {

std::vector<bool> ReadUnrotated(const ConfigKeys& keys, int layers) {
  std::vector<bool> unrotated(static_cast<size_t>(layers));
  const int interval = keys.Integer("no_rope_layer_interval", 1, 4);
  for (int layer = interval - 1; layer < layers; layer += interval) unrotated[static_cast<size_t>(layer)] = true;
  if (!keys.Has("no_rope_layers")) return unrotated;
  const std::vector<std::optional<int>> rotates = keys.Integers("no_rope_layers", 0);
  if (rotates.size() < unrotated.size())
    Fail("{}: no_rope_layers: got {} layers, expected num_hidden_layers {}", keys.where(), rotates.size(), layers);
  for (size_t layer = 0; layer < unrotated.size(); ++layer) {
    if (rotates[layer].value_or(2) > 1)
      Fail("{}: no_rope_layers: got {} in layer {}, expected 1 with rotary positions or 0 without", keys.where(),
           rotates[layer] ? std::to_string(*rotates[layer]) : "null", layer);
    unrotated[layer] = rotates[layer] == 0;
  }
  return unrotated;
}

void ReadSmolLm3(const ConfigKeys& keys, ModelConfig& c) {
  if (!keys.Has("max_position_embeddings")) c.max_positions = 32768;
  c.rotary.theta = 2e6;
  ReadDecoderConfig(keys, c);
  c.tied_embeddings = keys.Flag("tie_word_embeddings", true);
  c.unrotated = ReadUnrotated(keys, c.layers);
  const int window = keys.Flag("use_sliding_window", false) ? ReadWindow(keys, 0) : 0;
  c.windows = ReadWindows(keys, c.layers, window, [&c](int layer) { return !c.Rotates(layer); });
}

}  // namespace

constinit const Family kSmolLm3 = Changed(kLlama, [](Family& f) {
  f.name = "smollm3";
  f.examples = "HuggingFaceTB/SmolLM3-3B";
  f.read = ReadSmolLm3;
});

}  // namespace tare
