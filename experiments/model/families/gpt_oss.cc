// SPDX-License-Identifier: Apache-2.0
// gpt-oss (OpenAI 2025, modeling_gpt_oss.py): as llama, with biases, a learned sink per query head
// (kernels/attention/heads.h), a window in even layers or by layer_types, YaRN positions, and experts (experts.h).
//
// Stored experts are [experts, in, out] in f32, bf16 or f16, or MXFP4 (quant/interchange/folders/floats.cc). Router,
// sinks and biases are never rounded. Only transformers' limit and slope of the unit are supported.
#include "experiments/model/families/experts.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr std::string_view kSinkTensor = "self_attn.sinks";
constexpr RouterNames kGptOssRouter{.weight = "mlp.router.weight", .bias = "mlp.router.bias"};

// With neither key, the YaRN of transformers' class.
RotaryConfig ReadOwnPositions(const ConfigKeys& keys, const ModelConfig& c) {
  const RotaryConfig read = ReadRotary(keys, c.max_positions, c.rotary);
  if (keys.Has("rope_parameters") || keys.Filled("rope_scaling")) return read;
  RotaryConfig yarn{.type = RotaryConfig::Type::kYarn, .theta = read.theta, .factor = 32};
  yarn.original_positions = 4096;
  yarn.truncate = false;
  yarn.attention_factor = YarnAttentionFactor(yarn.factor);
  return yarn;
}

void ReadGptOss(const ConfigKeys& keys, ModelConfig& c) {
  if (keys.Has("hidden_act") && keys.Text("hidden_act") != "silu") NoteUnread(keys, c.family, {"hidden_act"});
  ReadNormEps(keys, c);
  c.attention_bias = keys.Flag("attention_bias", true);
  c.mlp_bias = true;
  c.sinks = true;
  const int window = ReadWindow(keys, 128);
  if (window == 0 && !keys.Has("layer_types"))
    Fail("{}: sliding_window: got null, expected a number of keys, as every other layer has a window", keys.where());
  c.windows = ReadWindows(keys, c.layers, window, [](int layer) { return layer % 2 == 0; });
  c.rotary = ReadOwnPositions(keys, c);
  ReadExperts(keys, c, {.experts = 128, .chosen = 4});
  c.gate_with_up = true;
  keys.Refuse("swiglu_limit", {"7", "7.0"});
  keys.Refuse("swiglu_alpha", {"1.702"});
}

std::vector<int64_t> SinkShape(const ModelConfig& c) { return {c.heads}; }

// The place of each expert's matrix in one tensor of all experts, with biases.
constexpr LinearPlace GptOssStacked(LinearPlace place, std::string_view stored) {
  place.bias = &ModelConfig::mlp_bias;
  place.stacked = stored;
  return place;
}
constexpr auto kGptOssLinear =
    Joined(kLlamaAttention,
           std::array{GptOssStacked(WideExperts("mlp.experts.{}.gate_up_proj", &LayerWeights::experts_gate_up),
                                    "mlp.experts.gate_up_proj"),
                      GptOssStacked(NarrowExperts("mlp.experts.{}.down_proj"), "mlp.experts.down_proj")});

constexpr VectorPlace kGptOssVectors[]{
    {kInputNorm, HiddenShape, 1, 0},   {kPostAttentionNorm, HiddenShape, 1, 0},        {kSinkTensor, SinkShape, 0, 1},
    RouterPlace(kGptOssRouter.weight), {kGptOssRouter.bias, RouterBiasShape, 0, 0.1f},
};

LayerWeights LoadGptOss(Weights& weights, const ModelConfig& config, int layer) {
  LayerWeights w = LoadLayer(weights, config, layer);
  w.sinks = w.vectors.at(kSinkTensor);
  return w;
}

}  // namespace

constinit const Family kGptOss = Changed(LikeLlama("gpt_oss", "openai/gpt-oss-20b, -120b", ReadGptOss), [](Family& f) {
  f.linear = kGptOssLinear;
  f.vectors = kGptOssVectors;
  f.load = LoadGptOss;
  f.forward = [](const LayerCall& call) { ExpertsForward(call, kGptOssRouter, ClampedSwiGlu); };
  f.smoothed = kExpertsSmoothed;
});

}  // namespace tare
