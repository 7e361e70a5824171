// SPDX-License-Identifier: Apache-2.0
// A layer of either tower:  x += W_o attention(norm(x)) + b;   x += W_2 gelu(W_1 norm(x) + b_1) + b_2,  norm:
// LayerNorm. W_1 and W_2 (fc1, fc2) are the sites up_proj and down_proj; there is no gate. The text tower is causal; in
// the vision tower every patch sees all others. Positions are learned (input_embedding.cc).
//
// DiffCLIP: V1's attention with biases, a weighted head norm, lambda_init 0.8 everywhere; head h has maps 2h and 2h +
// 1, num_attention_heads counts maps. Source: hammoudhasan/DiffCLIP, diff_attention.py and diff_clip.py.
#include "experiments/model/families/llama.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr std::string_view kNorm1 = "layer_norm1.weight", kNorm1Bias = "layer_norm1.bias",
                           kNorm2 = "layer_norm2.weight", kNorm2Bias = "layer_norm2.bias";

constexpr TensorNames kTextNames{.embedding = "text_model.embeddings.token_embedding.weight",
                                 .final_norm = "text_model.final_layer_norm.weight",
                                 .head = "text_projection.weight",
                                 .layer = "text_model.encoder.layers.",
                                 .final_norm_bias = "text_model.final_layer_norm.bias",
                                 .positions = "text_model.embeddings.position_embedding.weight"};
constexpr TensorNames kVisionNames{.embedding = "vision_model.embeddings.patch_embedding.weight",
                                   .final_norm = "vision_model.post_layernorm.weight",
                                   .head = "visual_projection.weight",
                                   .layer = "vision_model.encoder.layers.",
                                   .final_norm_bias = "vision_model.post_layernorm.bias",
                                   .positions = "vision_model.embeddings.position_embedding.weight",
                                   .class_row = "vision_model.embeddings.class_embedding",
                                   .input_norm = "vision_model.pre_layrnorm"};

constexpr auto kClipBias = &ModelConfig::attention_bias, kClipMlpBias = &ModelConfig::mlp_bias;
constexpr LinearPlace kClipLinear[]{{Site::kQProjW, "self_attn.q_proj", &LayerWeights::q, kClipBias, kNorm1},
                                    {Site::kKProjW, "self_attn.k_proj", &LayerWeights::k, kClipBias, kNorm1},
                                    {Site::kVProjW, "self_attn.v_proj", &LayerWeights::v, kClipBias, kNorm1},
                                    {Site::kOProjW, "self_attn.out_proj", &LayerWeights::o, kClipBias, {}},
                                    {Site::kUpProjW, "mlp.fc1", &LayerWeights::up, kClipMlpBias, kNorm2},
                                    {Site::kDownProjW, "mlp.fc2", &LayerWeights::down, kClipMlpBias, {}}};

constexpr auto kClipVectors = Joined(LayerNormVectors(kNorm1, kNorm1Bias), LayerNormVectors(kNorm2, kNorm2Bias));
constexpr auto kDifferentialVectors = Joined(kClipVectors, kLambdaVectors, kHeadNormVectors);

void ReadClipConfig(const ConfigKeys& keys, ModelConfig& c) {
  c.norm_eps = static_cast<float>(keys.Positive("layer_norm_eps", 1e-5));
  c.attention_bias = c.mlp_bias = true;
  c.tied_embeddings = false;
  c.bos.reset();  // prompts come as ids, whole
  c.rotates = false;
  c.projection = keys.Integer("projection_dim", 1, 512);
  if (c.kv_heads != c.heads)
    Fail("{}: num_key_value_heads: got {}, expected num_attention_heads {}", keys.where(), c.kv_heads, c.heads);
  ReadActivation(keys, c);
}

void ReadVision(const ConfigKeys& keys, ModelConfig& c) {
  ReadClipConfig(keys, c);
  keys.Refuse("num_channels", {"3"});
  c.image_size = keys.Integer("image_size", 1, 224);
  c.patch_size = keys.Integer("patch_size", 1, 32);
  if (c.image_size < c.patch_size || c.image_size > 1 << 14)
    Fail("{}: image_size: got {}, expected patch_size {} to {}", keys.where(), c.image_size, c.patch_size, 1 << 14);
  c.max_positions = 1 + c.Patches();
}

template <void (*read)(const ConfigKeys&, ModelConfig&)>
void ReadDifferential(const ConfigKeys& keys, ModelConfig& c) {
  read(keys, c);
  c.pairing = ModelConfig::Pairing::kAdjacent;
  c.lambda_init = static_cast<float>(keys.Positive("lambda_init", 0.8));
  c.head_norm_eps = static_cast<float>(keys.Positive("attn_rms_norm_eps", 1e-5));
  RequireEven(keys, "num_attention_heads", c.heads);
}

LayerWeights LoadClipLayer(Weights& weights, const ModelConfig& c, int layer) {
  const std::string_view prefix = FamilyOf(c).names.positions;
  weights.Ignore(std::string(prefix.substr(0, prefix.rfind("position_embedding"))) + "position_ids");  // 0, 1, 2, ...
  LayerWeights w = LoadLayer(weights, c, layer);
  if (c.SeesImages()) w.mask = {Mask::Kind::kFull};
  if (c.lambda_init) SetLambda(w, *c.lambda_init);
  return w;
}

void ClipForward(const LayerCall& call) {
  LayerNormRows(call, kNorm1, kNorm1Bias);
  AttendNormed(call);
  AddDelta(call);
  LayerNormRows(call, kNorm2, kNorm2Bias);
  FeedForwardUngated(call);
  AddDelta(call);
}

// Not rotated, as positions and patches write the stream too, nor scaled, as calibration reads texts.
constexpr Family Tower(std::string_view name, const TensorNames& names, void (*read)(const ConfigKeys&, ModelConfig&)) {
  return {.name = name,
          .activation = "quick_gelu",
          .read = read,
          .names = names,
          .linear = kClipLinear,
          .vectors = kClipVectors,
          .heads = LlamaHeads,
          .load = LoadClipLayer,
          .forward = ClipForward,
          .rotation = Rotation::kNone,
          .examples = "openai/clip-vit-base-patch32 and others; a MODEL for each tower",
          .defaults = DefaultsOf(name)};
}

constexpr Family Differential(Family tower) {
  tower.vectors = kDifferentialVectors;
  tower.heads = DifferentialHeads;
  tower.examples = "hammoudhasan/DiffCLIP and its baselines; a MODEL for each tower";
  return tower;
}

}  // namespace

constinit const Family kClipText = Tower("clip_text_model", kTextNames, ReadClipConfig);
constinit const Family kClipVision = Tower("clip_vision_model", kVisionNames, ReadVision);
constinit const Family kDiffClipText =
    Differential(Tower("diffclip_text_model", kTextNames, ReadDifferential<ReadClipConfig>));
constinit const Family kDiffClipVision =
    Differential(Tower("diffclip_vision_model", kVisionNames, ReadDifferential<ReadVision>));

}  // namespace tare
