// SPDX-License-Identifier: Apache-2.0
// Mistral: as llama without biases; each query sees the last sliding_window keys (4096 if missing, all if null), in the
// layers of layer_types or in all. transformers' AutoModel calls one with layer_types a Ministral.
//
// Mixtral (modeling_mixtral.py): attention as llama's without biases, over all keys or a window, and experts in the
// place of the feed-forward (experts.h), whose gate, up and down are stored as w1, w3 and w2.
#include "experiments/model/families/experts.h"

namespace tare {
namespace {

void ReadMinistral(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  c.attention_bias = c.mlp_bias = false;  // whatever a key says
  c.windows = ReadWindows(keys, c.layers, ReadWindow(keys, 4096), [](int) { return true; });
}

constexpr RouterNames kMixtralRouter{.weight = "block_sparse_moe.gate.weight", .bias = {}};

void ReadMixtral(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  c.attention_bias = c.mlp_bias = false;  // whatever a key says
  if (const int window = ReadWindow(keys, 0); window > 0) c.windows.assign(static_cast<size_t>(c.layers), window);
  NoteUnread(keys, c.family, {"layer_types"});
  ReadExperts(keys, c, {.experts = 8, .chosen = 2});
}

constexpr auto kMixtralLinear =
    WithExperts("block_sparse_moe.experts.{}.w1", "block_sparse_moe.experts.{}.w3", "block_sparse_moe.experts.{}.w2");
constexpr auto kMixtralVectors = Joined(kLlamaVectors, std::array{RouterPlace(kMixtralRouter.weight)});

}  // namespace

constinit const Family kMistral = LikeLlama("mistral", "mistralai/Mistral-7B-v0.1", ReadMinistral),
                       kMinistral = LikeLlama("ministral", "as mistral, with layer_types", ReadMinistral);

constinit const Family kMixtral =
    Changed(LikeLlama("mixtral", "mistralai/Mixtral-8x7B-v0.1", ReadMixtral), [](Family& f) {
      f.linear = kMixtralLinear;
      f.vectors = kMixtralVectors;
      f.forward = [](const LayerCall& call) { ExpertsForward(call, kMixtralRouter); };
      f.smoothed = kExpertsSmoothed;
    });

}  // namespace tare
