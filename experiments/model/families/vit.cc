// SPDX-License-Identifier: Apache-2.0
// timm's vision transformers without a class token: registers, mean pooling, layer scale. With LN a LayerNorm:
//
//   x = [registers; W patches + b + positions]                    every token sees all others
//   block:     x += g1 (W_o attention(LN1 x) + b);   x += g2 (W_2 gelu(W_1 LN2 x + b_1) + b_2)
//   parallel:  x += g (W_o attention(LN x) + b) + g (W_2 gelu(W_1 LN x + b_1) + b_2)
//   logits = W_head LN(mean of x over the patches) + b
//
// Differential: V1's attention; head h has maps 2h and 2h + 1 of d channels, values of 2d, a weighted norm, one lambda
// per layer, from 0, with 0.8 - 0.6 exp(-0.3 layer). Source: timm 1.0.29, vision_transformer.py, diff_attention.py.
//
// timm stores q, k, v as one matrix, in parallel blocks below W_1; in differential ones W_o and W_2 are columns of one,
// whose bias is W_o's. FromTimm turns config.json's architecture and model_args into other families' keys.
#include <nlohmann/json.hpp>

#include "experiments/model/families/llama.h"
#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/file/json.h"

namespace tare {
namespace {

// ---- Layers

// The tensors of a layer by what they are; a parallel block has one norm and one gamma.
struct BlockNames {
  std::string_view norm1, norm1_bias, norm2, norm2_bias, gamma1, gamma2;
  LambdaNames lambda;
};
constexpr LambdaNames kBlockLambda TARE_LAMBDAS("attn.", "sub_norm.weight");
constexpr LambdaNames kParallelLambda TARE_LAMBDAS("", "sub_norm.weight");
constexpr BlockNames kBlock{"norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias",
                            "ls1.gamma",    "ls2.gamma",  kBlockLambda},
    kParallelBlock{"in_norm.weight", "in_norm.bias", "in_norm.weight", "in_norm.bias",
                   "ls.gamma",       "ls.gamma",     kParallelLambda};

constexpr auto kBias = &ModelConfig::attention_bias, kMlpBias = &ModelConfig::mlp_bias;
constexpr auto kVitLinear =
    std::to_array<LinearPlace>({{Site::kQProjW, "attn.qkv.q", &LayerWeights::q, kBias, kBlock.norm1, "attn.qkv"},
                                {Site::kKProjW, "attn.qkv.k", &LayerWeights::k, kBias, kBlock.norm1, "attn.qkv"},
                                {Site::kVProjW, "attn.qkv.v", &LayerWeights::v, kBias, kBlock.norm1, "attn.qkv"},
                                {Site::kOProjW, "attn.proj", &LayerWeights::o, kBias, {}},
                                {Site::kUpProjW, "mlp.fc1", &LayerWeights::up, kMlpBias, kBlock.norm2},
                                {Site::kDownProjW, "mlp.fc2", &LayerWeights::down, kMlpBias, {}}});
constexpr auto kParallelLinear = std::to_array<LinearPlace>(
    {{Site::kUpProjW, "in_proj.mlp", &LayerWeights::up, kMlpBias, kParallelBlock.norm1, "in_proj"},
     {Site::kQProjW, "in_proj.q", &LayerWeights::q, kBias, kParallelBlock.norm1, "in_proj"},
     {Site::kKProjW, "in_proj.k", &LayerWeights::k, kBias, kParallelBlock.norm1, "in_proj"},
     {Site::kVProjW, "in_proj.v", &LayerWeights::v, kBias, kParallelBlock.norm1, "in_proj"},
     {Site::kOProjW, "attn_out_proj", &LayerWeights::o, kBias, {}},
     {Site::kDownProjW, "mlp_out_proj", &LayerWeights::down, kMlpBias, {}}});
constexpr auto kDiffParallelLinear = Changed(kParallelLinear, [](auto& places) {
  LinearPlace &o = At(places, Site::kOProjW), &down = At(places, Site::kDownProjW);
  o.tensor = "out_proj.attn", down.tensor = "out_proj.mlp";
  o.fused = down.fused = "out_proj", o.columns = down.columns = true;
  down.bias = nullptr;
});

constexpr VectorPlace Gamma(std::string_view name) { return {name, HiddenShape, 1, 0.1f}; }
constexpr auto kVitVectors =
    Joined(LayerNormVectors(kBlock.norm1, kBlock.norm1_bias), LayerNormVectors(kBlock.norm2, kBlock.norm2_bias),
           std::array{Gamma(kBlock.gamma1), Gamma(kBlock.gamma2)});
constexpr auto kParallelVectors =
    Joined(LayerNormVectors(kParallelBlock.norm1, kParallelBlock.norm1_bias), std::array{Gamma(kParallelBlock.gamma1)});
constexpr auto WithLambda(const auto& vectors, const LambdaNames& names) {
  return Joined(vectors, LambdaVectors(names), std::array{VectorPlace{names.head_norm, HeadNormShape, 1, 0}});
}
constexpr auto kDiffVitVectors = WithLambda(kVitVectors, kBlock.lambda);
constexpr auto kDiffParallelVectors = WithLambda(kParallelVectors, kParallelBlock.lambda);

template <const BlockNames& names>
LayerWeights LoadVitLayer(Weights& weights, const ModelConfig& c, int layer) {
  LayerWeights w = LoadLayer(weights, c, layer);
  w.mask = {Mask::Kind::kFull};
  if (w.vectors.contains(names.lambda.q1)) SetLambda(w, LambdaInit(layer), names.lambda);
  return w;
}

void AddScaled(const LayerCall& call, std::string_view gamma) {
  const int64_t E = call.config.hidden;
  const std::vector<float>& scale = call.weights.vectors.at(gamma);
  ForRows(call, [&](int64_t row) { MultiplyBy(call.a.delta.data() + row * E, scale.data(), E); });
  AddDelta(call);
}

// The norm of a parallel block stays in place while attention adds to the stream.
template <const BlockNames& names>
void VitForward(const LayerCall& call) {
  LayerNormRows(call, names.norm1, names.norm1_bias);
  AttendNormed(call);
  AddScaled(call, names.gamma1);
  if (names.norm2 != names.norm1) LayerNormRows(call, names.norm2, names.norm2_bias);
  FeedForwardUngated(call);
  AddScaled(call, names.gamma2);
}

// ---- Configuration

void ReadPixels(const ConfigKeys& keys, const char* key, std::array<float, 3>& values) {
  values.fill(0.5f);
  if (!keys.Has(key)) return;
  const std::vector<double> read = keys.Positives(key);
  if (read.size() != 3)
    Fail("{}: {}: got {} numbers, expected 3, of red, green and blue", keys.where(), key, read.size());
  std::ranges::transform(read, values.begin(), [](double value) { return static_cast<float>(value); });
}

void ReadVitConfig(const ConfigKeys& keys, ModelConfig& c) {
  c.norm_eps = static_cast<float>(keys.Positive("layer_norm_eps", 1e-6));
  c.attention_bias = c.mlp_bias = true;
  c.tied_embeddings = false;
  c.bos.reset();
  c.rotates = false;
  c.pools = true;
  c.vocabulary = keys.Integer("vocab_size", 1);
  c.image_size = keys.Integer("image_size", 1, 256);
  c.patch_size = keys.Integer("patch_size", 1, 16);
  c.registers = keys.Integer("num_register_tokens", 1, 1);
  if (c.image_size < c.patch_size || c.image_size > 1 << 14 || c.registers > 1 << 14)
    Fail("{}: got images of {} pixels, {} registers, expected patch size {} to {}, at most {}", keys.where(),
         c.image_size, c.registers, c.patch_size, 1 << 14, 1 << 14);
  c.max_positions = c.registers + c.Patches();
  if (c.kv_heads != c.heads)
    Fail("{}: num_key_value_heads: got {}, expected num_attention_heads {}", keys.where(), c.kv_heads, c.heads);
  // timm cuts the middle of a larger image.
  const double share = keys.Positive("crop_pct", 0.95);
  if (!(share >= 0.05 && share <= 1)) Fail("{}: crop_pct: got {}, expected 0.05 to 1", keys.where(), share);
  c.shorter_side = static_cast<int>(c.image_size / share);
  ReadPixels(keys, "image_mean", c.pixel_mean);
  ReadPixels(keys, "image_std", c.pixel_std);
  ReadActivation(keys, c);
}

void ReadDiffVitConfig(const ConfigKeys& keys, ModelConfig& c) {
  ReadVitConfig(keys, c);
  c.pairing = ModelConfig::Pairing::kAdjacent;
  c.head_norm_eps = 1e-5f;
  RequireEven(keys, "num_attention_heads", c.heads);
}

// What an architecture's name says. Source: timm, vision_transformer.py.
struct Architecture {
  std::string_view name;
  const Family* family;
  int width, layers, heads;
  double ffn;  // of width
  int registers = 1;
};
constexpr Architecture kArchitectures[]{
    {"vit_wee_patch16_reg1_gap_256", &kVit, 256, 14, 4, 5},
    {"vit_dwee_patch16_reg1_gap_256", &kDiffVit, 256, 14, 4, 5},
    {"vit_pwee_patch16_reg1_gap_256", &kParallelVit, 256, 16, 4, 5},
    {"vit_dpwee_patch16_reg1_gap_256", &kDiffParallelVit, 256, 16, 4, 5},
    {"vit_little_patch16_reg1_gap_256", &kVit, 320, 14, 5, 5.6},
    {"vit_little_patch16_reg4_gap_256", &kVit, 320, 14, 5, 5.6, 4},
    {"vit_dlittle_patch16_reg1_gap_256", &kDiffVit, 320, 14, 5, 5.6},
};

// Throws Error for an argument that makes another model, or that nobody knows here. Nulls are timm's defaults.
void RefuseOthers(const nlohmann::json& arguments, const std::string& where) {
  constexpr std::string_view kRead[]{"img_size",  "patch_size", "embed_dim",   "depth",
                                     "num_heads", "mlp_ratio",  "num_classes", "reg_tokens"};
  constexpr std::pair<std::string_view, std::string_view> kAsHere[]{
      {"global_pool", "\"avg\""},  {"fc_norm", "true"},          {"qkv_bias", "true"},
      {"in_chans", "3"},           {"class_token", "false"},     {"no_embed_class", "true"},
      {"qk_norm", "false"},        {"scale_attn_norm", "false"}, {"pre_norm", "false"},
      {"scale_mlp_norm", "false"}, {"dynamic_img_size", "false"}};
  for (const auto& [key, value] : arguments.items()) {
    const std::string text = value.dump();
    const bool in_training = key.ends_with("_rate") || key == "init_values";
    if (in_training || value.is_null() || std::ranges::contains(kRead, key)) continue;
    if (std::ranges::none_of(kAsHere, [&](const auto& known) { return known.first == key && known.second == text; }))
      Fail("{}: {}: {} is not supported", where, key, text);
  }
}

// The side of the images that the model was trained on; timm's default where config.json does not say it.
int SideOf(const ConfigKeys& pixels) {
  if (!pixels.Has("input_size")) return 256;
  const std::vector<std::optional<int>> size = pixels.Integers("input_size", 1);
  if (size.size() != 3 || size[0] != 3 || !size[1] || size[1] != size[2])
    Fail("{}: input_size: got other images than 3 colors of a square, expected [3, S, S]", pixels.where());
  return *size[1];
}

template <const BlockNames& names>
constexpr Family Vit(std::string_view name, std::span<const LinearPlace> linear, std::span<const VectorPlace> vectors) {
  return {.name = name,
          .activation = "gelu",
          .read = ReadVitConfig,
          .names = {.embedding = "patch_embed.proj.weight",
                    .final_norm = "fc_norm.weight",
                    .head = "head.weight",
                    .layer = "blocks.",
                    .final_norm_bias = "fc_norm.bias",
                    .positions = "pos_embed",
                    .class_row = "reg_token",
                    .input_norm = {},
                    .head_bias = "head.bias"},
          .linear = linear,
          .vectors = vectors,
          .heads = LlamaHeads,
          .load = LoadVitLayer<names>,
          .forward = VitForward<names>,
          .rotation = Rotation::kNone,
          .examples = "timm/vit_wee_patch16_reg1_gap_256.sbb_in1k, vit_pwee_*, vit_little_*"};
}

constexpr Family DifferentialVit(Family family) {
  family.read = ReadDiffVitConfig;
  family.heads = DifferentialHeads;
  family.examples = "timm/vit_dwee_patch16_reg1_gap_256.sbb_in1k, vit_dpwee_*, vit_dlittle_*";
  return family;
}

}  // namespace

nlohmann::json FromTimm(const nlohmann::json& timm, const std::string& where) {
  const ConfigKeys top(timm, where);
  const std::string tagged = top.Text("architecture"), name = tagged.substr(0, tagged.find('.'));
  const Architecture* const known = FindIn(kArchitectures, name, &Architecture::name);
  if (known == nullptr)
    Fail("{}: architecture: got '{}', expected {}", where, name,
         Listed(kArchitectures, ", ", &Architecture::name, " or "));
  const nlohmann::json none = nlohmann::json::object();
  const ConfigKeys arguments = top.Has("model_args") ? top.Object("model_args") : ConfigKeys(none, where),
                   pixels = top.Has("pretrained_cfg") ? top.Object("pretrained_cfg") : top;
  if (top.Has("model_args")) RefuseOthers(timm["model_args"], arguments.where());
  top.Refuse("global_pool", {"\"avg\""});
  const int width = arguments.Integer("embed_dim", 1, known->width);
  const double ffn = width * arguments.Positive("mlp_ratio", known->ffn);
  if (!(ffn >= 1 && ffn < 1 << 30))
    Fail("{}: mlp_ratio: got an FFN of {}, expected 1 to {}", arguments.where(), ffn, 1 << 30);
  const int64_t maps = known->family->read == ReadDiffVitConfig ? 2 : 1;  // of a head
  nlohmann::json json{{"model_type", known->family->name},
                      {"hidden_size", width},
                      {"intermediate_size", static_cast<int>(ffn)},
                      {"num_hidden_layers", arguments.Integer("depth", 1, known->layers)},
                      {"num_attention_heads", maps * arguments.Integer("num_heads", 1, known->heads)},
                      {"vocab_size", top.Integer("num_classes", 1, arguments.Integer("num_classes", 1, 1000))},
                      {"image_size", arguments.Integer("img_size", 1, SideOf(pixels))},
                      {"patch_size", arguments.Integer("patch_size", 1, 16)},
                      {"num_register_tokens", arguments.Integer("reg_tokens", 1, known->registers)}};
  pixels.Refuse("interpolation", {"\"bicubic\""});
  pixels.Refuse("crop_mode", {"\"center\""});
  if (pixels.Has("crop_pct")) json["crop_pct"] = pixels.Positive("crop_pct");
  if (pixels.Has("mean")) json["image_mean"] = pixels.Positives("mean");
  if (pixels.Has("std")) json["image_std"] = pixels.Positives("std");
  return json;
}

constinit const Family kVit = Vit<kBlock>("timm_vit", kVitLinear, kVitVectors),
                       kParallelVit = Vit<kParallelBlock>("timm_parallel_vit", kParallelLinear, kParallelVectors);
constinit const Family kDiffVit = DifferentialVit(Vit<kBlock>("timm_diff_vit", kVitLinear, kDiffVitVectors));
constinit const Family kDiffParallelVit =
    DifferentialVit(Vit<kParallelBlock>("timm_diff_parallel_vit", kDiffParallelLinear, kDiffParallelVectors));

}  // namespace tare
