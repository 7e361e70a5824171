// SPDX-License-Identifier: Apache-2.0
// Phi-4-mini-flash-reasoning (SambaY, Ren et al. 2025). n layers, from 0; norm: LayerNorm; no positions anywhere.
//   x += mixer(norm(x));   x += fc2(up * silu(gate)),  [gate | up] = fc1(norm(x))
//   mixer of even layers: a Mamba up to n/2, above it a gated memory unit of layer n/2's scan (scan_layers.cc);
//   of odd layers: differential attention, V1's with neighbouring maps (llama.h) and biases: below n/2 over a
//   window of keys, in n/2 + 1 over all, above it over the keys and values of n/2 + 1.
//
// Where public implementations differ: tensors decide over keys that some do not read: rank, states, taps, biases of a
// Mamba, fc1 and fc2. The head norm's eps is 1e-5. sliding_window may be a number, null or a list by layer. Embeddings
// are tied unless the key says no. All arithmetic is f32; no padding. A_log, D and lambda vectors may have any type.
// Source: the published model's code, TensorRT-LLM and vllm-project/vllm.
#include <limits>

#include "experiments/model/families/llama.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"

namespace tare {
namespace {

constexpr std::string_view kInputNormBias = "input_layernorm.bias", kPostNormBias = "post_attention_layernorm.bias",
                           kConv = "attn.conv1d.weight", kConvBias = "attn.conv1d.bias", kDtBias = "attn.dt_proj.bias",
                           kALog = "attn.A_log", kD = "attn.D";
constexpr LambdaNames kFlashLambda TARE_LAMBDAS("attn.inner_cross_attn.", "subln.weight");

constexpr std::string_view kQkv = "attn.Wqkv", kWiden = "mlp.fc1";
constexpr auto kPhi4FlashBias = &ModelConfig::attention_bias, kPhi4FlashMlpBias = &ModelConfig::mlp_bias,
               kMambaBias = &ModelConfig::mamba_bias;
constexpr LinearPlace kPhi4FlashLinear[]{
    {Site::kMambaInProjW, "attn.in_proj", &LayerWeights::mixer_in, kMambaBias, kInputNorm},
    {Site::kMambaXProjW, "attn.x_proj", &LayerWeights::scan_x, nullptr, {}},
    {Site::kMambaDtProjW, "attn.dt_proj", &LayerWeights::scan_dt, nullptr, {}},
    {Site::kMambaOutProjW, "attn.out_proj", &LayerWeights::mixer_out, kMambaBias, {}},
    {Site::kGmuInProjW, "attn.in_proj", &LayerWeights::mixer_in, nullptr, kInputNorm},
    {Site::kGmuOutProjW, "attn.out_proj", &LayerWeights::mixer_out, nullptr, {}},
    {Site::kQProjW, "attn.Wqkv.q", &LayerWeights::q, kPhi4FlashBias, kInputNorm, kQkv},
    {Site::kKProjW, "attn.Wqkv.k", &LayerWeights::k, kPhi4FlashBias, kInputNorm, kQkv},
    {Site::kVProjW, "attn.Wqkv.v", &LayerWeights::v, kPhi4FlashBias, kInputNorm, kQkv},
    {Site::kOProjW, "attn.out_proj", &LayerWeights::o, kPhi4FlashBias, {}},
    {Site::kGateProjW, "mlp.fc1.gate", &LayerWeights::gate, kPhi4FlashMlpBias, kPostAttentionNorm, kWiden},
    {Site::kUpProjW, "mlp.fc1.up", &LayerWeights::up, kPhi4FlashMlpBias, kPostAttentionNorm, kWiden},
    {Site::kDownProjW, "mlp.fc2", &LayerWeights::down, kPhi4FlashMlpBias, {}},
};

std::vector<int64_t> ChannelShape(const ModelConfig& c) { return {c.scan_channels}; }
std::vector<int64_t> ConvShape(const ModelConfig& c) { return {c.scan_channels, 1, c.scan_taps}; }
std::vector<int64_t> StateShape(const ModelConfig& c) { return {c.scan_channels, c.scan_states}; }
constexpr auto kPhi4FlashVectors = Joined(
    LayerNormVectors(kInputNorm, kInputNormBias), LayerNormVectors(kPostAttentionNorm, kPostNormBias),
    LambdaVectors(kFlashLambda),
    std::to_array<VectorPlace>({{kFlashLambda.head_norm, HeadNormShape, 1, 0, nullptr, {}, SiteOf::kAttention},
                                {kConv, ConvShape, 0, 0.5f, nullptr, {}, SiteOf::kMamba},
                                {kConvBias, ChannelShape, 0, 0.1f, &ModelConfig::scan_conv_bias, {}, SiteOf::kMamba},
                                {kDtBias, ChannelShape, -3, 1, nullptr, {}, SiteOf::kMamba},
                                {kALog, StateShape, 1, 0.7f, nullptr, {}, SiteOf::kMamba},
                                {kD, ChannelShape, 1, 0, nullptr, {}, SiteOf::kMamba}}));

// dt_proj reads rows of x_proj; x_proj, mamba.out_proj and gmu.out_proj read a silu, or a scan that other layers read.
constexpr Site kPhi4FlashSmoothed[]{Site::kMambaInProjIn, Site::kMambaDtProjIn, Site::kGmuInProjIn, Site::kQProjIn,
                                    Site::kOProjIn,       Site::kGateProjIn,    Site::kDownProjIn};

LayerKind KindOf(int layer, int layers) {
  if (layer % 2 == 0) return layer <= layers / 2 ? LayerKind::kMamba : LayerKind::kMemoryUnit;
  return layer <= layers / 2 + 1 ? LayerKind::kAttention : LayerKind::kSharedAttention;
}

// The windows of all layers. Only attention layers below n/2 may have one.
std::vector<int> ReadFlashWindows(const ConfigKeys& keys, int layers) {
  constexpr int kUsual = 2047;  // of the model's own configuration class
  std::vector<int> windows(static_cast<size_t>(layers));
  const auto slides = [layers](int layer) { return layer % 2 == 1 && layer < layers / 2; };
  if (!keys.Has("sliding_window") || !keys.IsList("sliding_window"))
    return ReadWindows(keys, layers, ReadWindow(keys, kUsual), slides);
  const std::vector<std::optional<int>> listed = keys.Integers("sliding_window", 1);
  if (listed.size() != windows.size())
    Fail("{}: sliding_window: got a list of {}, expected one of num_hidden_layers {}", keys.where(), listed.size(),
         layers);
  for (int layer = 0; layer < layers; ++layer) {
    const std::optional<int> window = listed[static_cast<size_t>(layer)];
    if (window && !slides(layer))
      Fail("{}: sliding_window: got {} in layer {}, expected null there: only odd layers below {} have a window",
           keys.where(), *window, layer, layers / 2);
    windows[static_cast<size_t>(layer)] = window.value_or(0);
  }
  return windows;
}

void ReadScan(const ConfigKeys& keys, ModelConfig& c) {
  const int64_t channels = int64_t{keys.Integer("mamba_expand", 1, 2)} * c.hidden;
  constexpr int kMost = std::numeric_limits<int32_t>::max() / 2;
  if (channels > kMost) Fail("{}: mamba_expand x hidden_size: got {}, too large", keys.where(), channels);
  c.scan_channels = static_cast<int>(channels);
  c.scan_states = keys.Integer("mamba_d_state", 1, 16);
  c.scan_taps = keys.Integer("mamba_d_conv", 1, 4);
  c.scan_rank = (c.hidden + 15) / 16;
  if (keys.Has("mamba_dt_rank") && keys.IsText("mamba_dt_rank")) {
    if (keys.Text("mamba_dt_rank") != "auto")
      Fail("{}: mamba_dt_rank: got '{}', expected auto or a number", keys.where(), keys.Text("mamba_dt_rank"));
  } else {
    c.scan_rank = keys.Integer("mamba_dt_rank", 1, c.scan_rank);
  }
  c.scan_conv_bias = keys.Flag("mamba_conv_bias", true);
  c.mamba_bias = keys.Flag("mamba_proj_bias", false);
}

void ReadPhi4FlashConfig(const ConfigKeys& keys, ModelConfig& c) {
  ReadActivation(keys, c);
  if (c.layers % 4 != 0)
    Fail("{}: num_hidden_layers: got {}, expected a multiple of 4: layers come in pairs, in two halves", keys.where(),
         c.layers);
  if (const int period = keys.Integer("mb_per_layer", 1, 2); period != 2)
    Fail("{}: mb_per_layer: got {}, expected 2 (others are not supported)", keys.where(), period);
  RequireEven(keys, "num_attention_heads", c.heads);
  RequireEven(keys, "num_key_value_heads", c.kv_heads);
  if (int64_t{c.head_dim} * c.heads != c.hidden)
    Fail("{}: head_dim: got {}, expected hidden_size {} / num_attention_heads {}", keys.where(), c.head_dim, c.hidden,
         c.heads);
  for (const char* key : {"lm_head_bias", "rope_scaling", "rope_parameters", "layer_types", "attention_types"})
    keys.Refuse(key);
  c.norm_eps = static_cast<float>(keys.Positive("layer_norm_eps", 1e-5));
  c.head_norm_eps = 1e-5f;
  c.attention_bias = true;
  c.mlp_bias = keys.Flag("mlp_bias", false);
  c.tied_embeddings = keys.Flag("tie_word_embeddings", true);
  c.rotates = false;
  c.windows = ReadFlashWindows(keys, c.layers);
  for (int layer = 0; layer < c.layers; ++layer) c.kinds.push_back(KindOf(layer, c.layers));
  ReadScan(keys, c);
}

// A tensor's size along one dimension; `otherwise` if it has none, which loading then refuses.
int SizeOf(const Checkpoint& files, const std::string& name, size_t dimension, int otherwise) {
  int64_t size = otherwise;
  if (const QuantizedMatrix* matrix = files.FindQuantized(name)) size = dimension == 0 ? matrix->out : matrix->in;
  if (const TensorView* tensor = files.Find(name); tensor != nullptr && dimension < tensor->shape.size())
    size = tensor->shape[dimension];
  return size < 1 || size > std::numeric_limits<int32_t>::max() / 2 ? otherwise : static_cast<int>(size);
}

void Fit(const Checkpoint& files, ModelConfig& c) {
  const auto in_first = [&](std::string_view tensor) { return LayerTensor(c, 0, tensor); };
  c.scan_channels = SizeOf(files, in_first(kALog), 0, c.scan_channels);
  c.scan_states = SizeOf(files, in_first(kALog), 1, c.scan_states);
  c.scan_taps = SizeOf(files, in_first(kConv), 2, c.scan_taps);
  c.scan_rank = SizeOf(files, in_first("attn.dt_proj.weight"), 1, c.scan_rank);
  c.scan_conv_bias = files.Has(in_first(kConvBias));
  c.mamba_bias = files.Has(in_first("attn.in_proj.bias"));
  c.mlp_bias = files.Has(in_first("mlp.fc2.bias"));
}

std::vector<OutputHead> Phi4FlashHeads(const ModelConfig& c) { return GroupedHeads(c.heads, c.heads / 2, c.kv_heads); }

LayerWeights LoadPhi4FlashLayer(Weights& weights, const ModelConfig& c, int layer) {
  LayerWeights w = LoadLayer(weights, c, layer);
  if (HasSite(Site::kQ, c, layer)) SetLambda(w, LambdaInit(layer), kFlashLambda);
  if (c.Kind(layer) == LayerKind::kMamba)
    w.scan = ScanParametersOf(w, {kConv, kConvBias, kDtBias, kALog, kD}, c, c.scan_channels);
  return w;
}

void Phi4FlashForward(const LayerCall& call) {
  LayerNormRows(call, kInputNorm, kInputNormBias);
  const LayerKind kind = call.config.Kind(call.layer);
  (kind == LayerKind::kMamba ? MixMamba : kind == LayerKind::kMemoryUnit ? MixMemory : AttendNormed)(call);
  AddDelta(call);
  LayerNormRows(call, kPostAttentionNorm, kPostNormBias);
  FeedForward(call);
  AddDelta(call);
}

}  // namespace

constinit const Family kPhi4Flash{.name = "phi4flash",
                                  .read = ReadPhi4FlashConfig,
                                  .names = {.embedding = "model.embed_tokens.weight",
                                            .final_norm = "model.final_layernorm.weight",
                                            .head = "lm_head.weight",
                                            .layer = "model.layers.",
                                            .final_norm_bias = "model.final_layernorm.bias"},
                                  .linear = kPhi4FlashLinear,
                                  .vectors = kPhi4FlashVectors,
                                  .heads = Phi4FlashHeads,
                                  .load = LoadPhi4FlashLayer,
                                  .forward = Phi4FlashForward,
                                  .rotation = Rotation::kStreamAndValues,
                                  .smoothed = kPhi4FlashSmoothed,
                                  .fit = Fit,
                                  .centres = true,
                                  .head_norm = kFlashLambda.head_norm,
                                  .examples = "microsoft/Phi-4-mini-flash-reasoning"};

}  // namespace tare
