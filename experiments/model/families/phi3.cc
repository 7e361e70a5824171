// SPDX-License-Identifier: Apache-2.0
// Phi-3, Phi-3.5 and Phi-4-mini: as llama, with q, k and v stored as one matrix, gate and up as another, no biases, and
// rotary positions of a part of each head (rotary_scaling.h).
//
// longrope: a sequence turns by the long factors as soon as it has more tokens than original_max_position_embeddings,
// all its keys alike, and when a generated text grows beyond it, its cache is made again. transformers 5.12 does so for
// a whole sequence, and with a cache turns the keys before that token by one list and those after it by the other.
#include "experiments/model/families/llama.h"
#include "experiments/model/families/table.h"
#include "quant/base/error.h"

namespace tare {
namespace {

void ReadPhi3(const ConfigKeys& keys, ModelConfig& c) {
  for (const char* key : {"attention_bias", "mlp_bias", "lm_head_bias", "layer_types"}) keys.Refuse(key);
  for (const char* key : {"full_attn_mod", "interpolate_factor"}) keys.Refuse(key, {"1", "1.0"});
  if (!keys.Has("max_position_embeddings")) c.max_positions = 4096;
  c.rotary.original_positions = 4096;
  ReadDecoderConfig(keys, c);
  if (const auto type = c.rotary.type; type != RotaryConfig::Type::kDefault && type != RotaryConfig::Type::kLongRope)
    Fail("{}: rope_type: got '{}', expected default or longrope in a phi3 model", keys.where(), Name(type));
  const int window = ReadWindow(keys, 0);
  if (window > 0 && window < c.max_positions) c.windows.assign(static_cast<size_t>(c.layers), window);
}

constexpr auto kPhi3Linear = Changed(kLlamaLinear, [](auto& places) {
  for (LinearPlace& place : places) place.bias = nullptr;
  const auto part = [&](Site weight, std::string_view tensor, std::string_view whole) {
    At(places, weight).tensor = tensor;
    At(places, weight).fused = whole;
  };
  constexpr std::string_view kQkv = "self_attn.qkv_proj", kGateUp = "mlp.gate_up_proj";
  part(Site::kQProjW, "self_attn.qkv_proj.q", kQkv);
  part(Site::kKProjW, "self_attn.qkv_proj.k", kQkv);
  part(Site::kVProjW, "self_attn.qkv_proj.v", kQkv);
  part(Site::kGateProjW, "mlp.gate_up_proj.gate", kGateUp);
  part(Site::kUpProjW, "mlp.gate_up_proj.up", kGateUp);
});

}  // namespace

constinit const Family kPhi3 = Changed(kLlama, [](Family& f) {
  f.name = "phi3";
  f.examples = "Phi-4-mini, Phi-3-mini, Phi-3-medium, Phi-3.5-mini";
  f.read = ReadPhi3;
  f.linear = kPhi3Linear;
  f.rotates_parts = true;
});

}  // namespace tare
