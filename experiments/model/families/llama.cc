// SPDX-License-Identifier: Apache-2.0
// Llama:  x += W_o softmax(Q K^T / sqrt(d)) V,  Q, K, V of norm(x);   x += FFN(norm(x)).
//
// Granite 3, dense: as llama, with four multipliers from the configuration, e, r, a and s.
//   x = e embedding;   x += r W_o softmax(a Q K^T) V,  Q, K, V of norm(x);   x += r FFN(norm(x));   logits = head / s
//
// SmolLM3: as llama, without rotary positions where no_rope_layers has 0, or in every no_rope_layer_interval-th layer.
// With use_sliding_window these layers see a window of keys, unless layer_types says otherwise.
//
// Phi-3, -3.5 and Phi-4-mini: as llama; q, k, v one matrix, gate, up another, no biases, partial rotary (rotary.h).
//
// longrope: all keys turn by the long factors once a sequence exceeds original_max_position_embeddings; a text growing
// beyond it makes its cache again. transformers 5.12, with a cache, leaves the keys before that token as they are.
#include "experiments/model/families/llama.h"

#include "experiments/model/activation.h"
#include "quant/base/message.h"

namespace tare {
namespace {

void ReadGranite(const ConfigKeys& keys, ModelConfig& c) {
  ReadLlamaConfig(keys, c);
  const auto multiplier = [&](const char* key) { return static_cast<float>(keys.Positive(key, 1)); };
  c.embedding_scale = multiplier("embedding_multiplier");
  c.residual_scale = multiplier("residual_multiplier");
  c.attention_scale = multiplier("attention_multiplier");
  c.logit_divisor = multiplier("logits_scaling");
}

std::vector<bool> ReadUnrotated(const ConfigKeys& keys, int layers) {
  std::vector<bool> by_interval, listed;
  const int interval = keys.Integer("no_rope_layer_interval", 1, 4);
  for (int layer = 1; layer <= layers; ++layer) by_interval.push_back(layer % interval == 0);
  if (!keys.Has("no_rope_layers")) return by_interval;
  const std::vector<std::optional<int>> rotates = keys.Integers("no_rope_layers", 0);
  if (rotates.size() < by_interval.size())
    Fail("{}: no_rope_layers: got {} layers, expected num_hidden_layers {}", keys.where(), rotates.size(), layers);
  for (size_t layer = 0; layer < by_interval.size(); ++layer) {
    if (!rotates[layer]) Fail("{}: no_rope_layers: got null in layer {}, expected a number", keys.where(), layer);
    listed.push_back(rotates[layer] == 0);
  }
  if (listed != by_interval) NoteUnread(keys, "smollm3", {"no_rope_layer_interval"});
  return listed;
}

void ReadSmolLm3(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  c.unrotated = ReadUnrotated(keys, c.layers);
  const bool slides = keys.Flag("use_sliding_window", false) || keys.Has("layer_types");
  c.windows =
      ReadWindows(keys, c.layers, slides ? ReadWindow(keys, 0) : 0, [&c](int layer) { return !c.Rotates(layer); });
}

void ReadPhi3(const ConfigKeys& keys, ModelConfig& c) {
  for (const char* key : {"attention_bias", "mlp_bias", "lm_head_bias"}) keys.Refuse(key);
  NoteUnread(keys, c.family, {"layer_types"});
  for (const char* key : {"full_attn_mod", "interpolate_factor"}) keys.Refuse(key, {"1", "1.0"});
  c.rotary.original_positions = 4096;
  ReadDecoderConfig(keys, c);
  if (const auto type = c.rotary.type; type != RotaryConfig::Type::kDefault && type != RotaryConfig::Type::kLongRope)
    Fail("{}: rope_type: got '{}', expected default or longrope in a phi3 model", keys.where(), Name(type));
  const int window = ReadWindow(keys, 0);
  if (window > 0 && window < PositionsReached(c.rotary, c.max_positions))
    c.windows.assign(static_cast<size_t>(c.layers), window);
}

constexpr auto kPhi3Linear = Changed(kLlamaLinear, [](auto& places) {
  for (LinearPlace& place : places) place.bias = nullptr;
  const auto part = [&](Site weight, std::string_view tensor) {
    At(places, weight).tensor = tensor;
    At(places, weight).fused = tensor.substr(0, tensor.rfind('.'));
  };
  part(Site::kQProjW, "self_attn.qkv_proj.q");
  part(Site::kKProjW, "self_attn.qkv_proj.k");
  part(Site::kVProjW, "self_attn.qkv_proj.v");
  part(Site::kGateProjW, "mlp.gate_up_proj.gate");
  part(Site::kUpProjW, "mlp.gate_up_proj.up");
});

}  // namespace

std::vector<OutputHead> LlamaHeads(const ModelConfig& c) { return StandardHeads(c.heads, c.kv_heads); }

void AttendNormed(const LayerCall& call) {
  const auto& vectors = call.weights.vectors;
  ProjectQkv(call);
  if (call.config.qk_norm) NormQk(call, vectors.at(kQNorm), vectors.at(kKNorm));
  RotateQk(call);
  const bool projects_lambda = call.weights.lambda_projection.stored().out > 0;
  Attend(call, projects_lambda ? ProjectLambda(call) : LambdaOf(call.weights));
  if (call.weights.lambda_init) NormHeads(call);
  if (call.config.gate != OutputGate::kNone) GateHeads(call);
  ProjectOutput(call);
}

void AddAttention(const LayerCall& call) {
  NormRows(call, call.weights.vectors.at(kInputNorm));
  AttendNormed(call);
  AddDelta(call);
}

void LlamaForward(const LayerCall& call) {
  AddAttention(call);
  NormRows(call, call.weights.vectors.at(kPostAttentionNorm));
  FeedForward(call);
  AddDelta(call);
}

void ReadActivation(const ConfigKeys& keys, ModelConfig& c, const char* key) {
  const std::string own(FamilyOf(c).activation), name = keys.Has(key) ? keys.Text(key) : own;
  c.activation = FindActivation(name);
  if (name == own) return;
  const bool any = FindActivation(own) != nullptr;
  if (!any || c.activation == nullptr)
    Fail("{}: {}: got '{}', expected {} (others are not supported)", keys.where(), key, name,
         any ? ActivationsText() : own);
}

void ReadNormEps(const ConfigKeys& keys, ModelConfig& c) {
  const double usual = FamilyOf(c).defaults.norm_eps;
  c.norm_eps = static_cast<float>(usual > 0 ? keys.Positive("rms_norm_eps", usual) : keys.Positive("rms_norm_eps"));
}

void ReadDecoderConfig(const ConfigKeys& keys, ModelConfig& c) {
  ReadActivation(keys, c);
  ReadNormEps(keys, c);
  c.attention_bias = keys.Flag("attention_bias", false);
  c.mlp_bias = keys.Flag("mlp_bias", false);
  c.rotary = ReadRotary(keys, c.max_positions, c.rotary);
}

void ReadLlamaConfig(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  NoteUnread(keys, c.family, {"sliding_window", "layer_types"});
}

constinit const Family kGranite = LikeLlama("granite", "ibm-granite/granite-3.3-2b-base, -8b-base; only dense models",
                                            ReadGranite),
                       kSmolLm3 = LikeLlama("smollm3", "HuggingFaceTB/SmolLM3-3B", ReadSmolLm3);

constinit const Family kPhi3 =
    Changed(LikeLlama("phi3", "Phi-4-mini, Phi-3-mini, Phi-3-medium, Phi-3.5-mini", ReadPhi3), [](Family& f) {
      f.linear = kPhi3Linear;
      f.rotates_parts = true;
    });

}  // namespace tare
