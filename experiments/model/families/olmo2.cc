// SPDX-License-Identifier: Apache-2.0
// OLMo 2: norms follow the blocks, and those of queries and keys cover all heads of a token.
//   x += norm(W_o softmax(rope(norm(Q)) rope(norm(K))^T / sqrt(d)) V),  Q, K, V of x;   x += norm(FFN(x))
// OLMo 3: with a window in three layers of four, or by layer_types. These have unscaled rotary positions, as in
// transformers 4.57 and in training; transformers 5.12 scales them in all layers.
#include "experiments/model/families/llama.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr std::string_view kOlmoPostFeedForwardNorm = "post_feedforward_layernorm.weight";

void ReadOlmo(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  NoteUnread(keys, c.family, {"clip_qkv"});  // OLMo 1's
  c.mlp_bias = false;
  c.qk_norm = true;
}

void ReadOlmo2(const ConfigKeys& keys, ModelConfig& c) {
  ReadOlmo(keys, c);
  NoteUnread(keys, c.family, {"sliding_window", "layer_types"});
}

void ReadOlmo3(const ConfigKeys& keys, ModelConfig& c) {
  ReadOlmo(keys, c);
  const int window = ReadWindow(keys, 4096);
  if (window == 0 && !keys.Has("layer_types"))
    Fail("{}: sliding_window: got null, expected a number of keys, as three layers of four have a window",
         keys.where());
  c.windows = ReadWindows(keys, c.layers, window, [](int layer) { return (layer + 1) % 4 != 0; });
  c.window_rotary = RotaryConfig{.theta = c.rotary.theta};
  if (c.rotary.type != RotaryConfig::Type::kDefault)
    Notice(keys.where() +
           ": layers with a window have unscaled positions, as in training; transformers 5.12 scales them");
}

void Olmo2Forward(const LayerCall& call) {
  const auto& vectors = call.weights.vectors;
  TakeRows(call);
  AttendNormed(call);
  AddNormedDelta(call, vectors.at(kPostAttentionNorm));
  TakeRows(call);
  FeedForward(call);
  AddNormedDelta(call, vectors.at(kOlmoPostFeedForwardNorm));
}

// There is no norm before a block.
constexpr auto kOlmo2Linear = Changed(kLlamaLinear, [](auto& places) {
  for (LinearPlace& place : places) place.norm = {};
});

std::vector<int64_t> QueriesShape(const ModelConfig& c) { return {int64_t{c.heads} * c.head_dim}; }
std::vector<int64_t> KeysShape(const ModelConfig& c) { return {int64_t{c.kv_heads} * c.head_dim}; }
constexpr VectorPlace kOlmo2Vectors[]{{kQNorm, QueriesShape, 1, 0},
                                      {kKNorm, KeysShape, 1, 0},
                                      {kPostAttentionNorm, HiddenShape, 1, 0},
                                      {kOlmoPostFeedForwardNorm, HiddenShape, 1, 0}};

constexpr Site kSmoothed[]{Site::kDownProjIn, Site::kOProjIn};

constexpr Family Olmo(std::string_view name, std::string_view examples, void (*read)(const ConfigKeys&, ModelConfig&)) {
  return Changed(LikeLlama(name, examples, read), [](Family& f) {
    f.linear = kOlmo2Linear;
    f.vectors = kOlmo2Vectors;
    f.forward = Olmo2Forward;
    f.rotation = Rotation::kNone;
    f.smoothed = kSmoothed;
  });
}

}  // namespace

constinit const Family kOlmo2 = Olmo("olmo2", "allenai/OLMo-2-0425-1B, -1124-7B", ReadOlmo2),
                       kOlmo3 = Olmo("olmo3", "allenai/Olmo-3-1025-7B, -1125-32B", ReadOlmo3);

}  // namespace tare
