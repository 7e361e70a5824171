// SPDX-License-Identifier: Apache-2.0
// Mamba-2 (Dao and Gu 2024), as transformers' Mamba2ForCausalLM, and Diff-Mamba2 (Schneider, Zimerman and Nachmani
// 2025). Only x += mixer(norm(x)), a Mamba-2 (scan_layers.cc). n heads of p channels; layers from 0.
//
//   differential layers   x += (1 - l0) norm(m1 - lambda m2),   lambda = sigmoid(sum lambda_q1) + l0
//                         l0 = 0.8 - 0.6 exp(-0.3 layer);   m1, m2: Mamba-2s of n heads of p/2 channels
//
// Where public implementations differ: heads read B and C in blocks, n/G neighbours one group's; the norm before
// out_proj is over all channels (both as in transformers and, with one group, in all others); residual stream, states
// and lambda are f32. Source: transformers 5.12.1, modeling_mamba2.py; NadavSc/Diff-Mamba, modeling_diffmamba2.py.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/model/families/llama.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"

namespace tare {
namespace {

constexpr std::string_view kMixerNorm = "norm.weight", kLambdaQ1 = "lambda_q1", kMixerSubNorm = "subln.weight";

// The vectors of one Mamba.
struct MixerNames {
  ScanNames scan;
  std::string_view norm;
};
#define TARE_MIXER(of) \
  {{of ".conv1d.weight", of ".conv1d.bias", of ".dt_bias", of ".A_log", of ".D"}, of ".norm.weight"}
constexpr MixerNames kOnly TARE_MIXER("mixer"), kFirst TARE_MIXER("mixer_1"), kSecond TARE_MIXER("mixer_2");
#undef TARE_MIXER

constexpr auto kMamba2Bias = &ModelConfig::mamba_bias;
constexpr LinearPlace kMamba2Linear[]{
    {Site::kMambaInProjW, "mixer.in_proj", &LayerWeights::mixer_in, kMamba2Bias, kMixerNorm},
    {Site::kMambaOutProjW, "mixer.out_proj", &LayerWeights::mixer_out, kMamba2Bias, {}},
    {Site::kMixer1InProjW, "mixer_1.in_proj", &LayerWeights::mixer_in, kMamba2Bias, kMixerNorm},
    {Site::kMixer1OutProjW, "mixer_1.out_proj", &LayerWeights::mixer_out, kMamba2Bias, {}},
    {Site::kMixer2InProjW, "mixer_2.in_proj", &LayerWeights::second_in, kMamba2Bias, kMixerNorm},
    {Site::kMixer2OutProjW, "mixer_2.out_proj", &LayerWeights::second_out, kMamba2Bias, {}},
};

template <SiteOf of>
int64_t MixerChannels(const ModelConfig& c) {
  return of == SiteOf::kMambaPair ? c.PairChannels() : c.scan_channels;
}

template <SiteOf of>
constexpr auto MixerVectors(const MixerNames& names) {
  using Shape = std::vector<int64_t>;
  const auto heads = [](const ModelConfig& c) { return Shape{c.scan_heads}; };
  const auto channels = [](const ModelConfig& c) { return Shape{MixerChannels<of>(c)}; };
  const auto convolved = [](const ModelConfig& c) { return Shape{c.Convolved(MixerChannels<of>(c))}; };
  const auto taps = [](const ModelConfig& c) { return Shape{c.Convolved(MixerChannels<of>(c)), 1, c.scan_taps}; };
  return std::to_array<VectorPlace>({{names.scan.conv, taps, 0, 0.5f, nullptr, {}, of},
                                     {names.scan.conv_bias, convolved, 0, 0.1f, &ModelConfig::scan_conv_bias, {}, of},
                                     {names.scan.delta_bias, heads, -3, 1, nullptr, {}, of},
                                     {names.scan.a_log, heads, 1, 0.7f, nullptr, {}, of},
                                     {names.scan.d, heads, 1, 0, nullptr, {}, of},
                                     {names.norm, channels, 1, 0, nullptr, {}, of}});
}
constexpr auto kMamba2Vectors =
    Joined(std::to_array<VectorPlace>({{kMixerNorm, HiddenShape, 1, 0},
                                       {kLambdaQ1, HiddenShape, 0, 0.1f, nullptr, {}, SiteOf::kMambaPair},
                                       {kMixerSubNorm, HiddenShape, 1, 0, nullptr, {}, SiteOf::kMambaPair}}),
           MixerVectors<SiteOf::kMamba>(kOnly), MixerVectors<SiteOf::kMambaPair>(kFirst),
           MixerVectors<SiteOf::kMambaPair>(kSecond));

constexpr Site kMamba2Smoothed[]{Site::kMambaInProjIn, Site::kMixer1InProjIn};

// time_step_limit, as transformers writes it: [0.0, Infinity].
void ReadStepLimit(const ConfigKeys& keys, ModelConfig& c) {
  const char* const key = "time_step_limit";
  if (!keys.Has(key)) return;
  const std::vector<double> limits = keys.Numbers(key);
  if (limits.size() != 2 || !(limits[0] >= 0) || !(limits[1] > limits[0]))
    Fail("{}: {}: got other than two rising numbers, expected [0.0, Infinity] or the like", keys.where(), key);
  c.least_step = static_cast<float>(limits[0]);
  c.most_step = static_cast<float>(limits[1]);
}

void ReadMamba2Config(const ConfigKeys& keys, ModelConfig& c) {
  keys.Refuse("hidden_act", {"\"silu\"", "\"swish\""});
  c.norm_eps = static_cast<float>(keys.Positive("layer_norm_epsilon", 1e-5));
  c.head_norm_eps = 1e-5f;
  c.ffn = 0;
  c.rotates = false;
  c.heads = c.kv_heads = c.scan_heads = keys.Integer("num_heads", 1);
  c.scan_groups = keys.Integer("n_groups", 1, 8);
  c.scan_states = keys.Integer("state_size", 1, 128);
  c.scan_taps = keys.Integer("conv_kernel", 1, 4);
  c.scan_conv_bias = keys.Flag("use_conv_bias", true);
  c.mamba_bias = keys.Flag("use_bias", false);
  ReadStepLimit(keys, c);
  const int64_t channels = int64_t{c.heads} * c.head_dim, expand = keys.Integer("expand", 1, 2);
  constexpr int64_t kMost = 1 << 24;
  if (channels != expand * c.hidden)
    Fail("{}: num_heads x head_dim: got {} x {}, expected expand {} x hidden_size {}", keys.where(), c.heads,
         c.head_dim, expand, c.hidden);
  if (c.heads % c.scan_groups != 0)
    Fail("{}: n_groups: got {}, expected a divisor of num_heads {}", keys.where(), c.scan_groups, c.heads);
  if (channels > kMost || c.ScanColumns() > kMost || c.scan_taps > kMost)
    Fail("{}: got {} channels, {} x {} states, {} taps, expected at most {} of each", keys.where(), channels,
         c.scan_groups, c.scan_states, c.scan_taps, kMost);
  c.scan_channels = static_cast<int>(channels);
  c.kinds.assign(static_cast<size_t>(c.layers), c.family == "mamba2" ? LayerKind::kMamba : LayerKind::kMambaPair);
}

// The layers with two mixers are those that have the second's tensors. With them, too, model_type is mamba2.
void FitMamba2(const Checkpoint& files, ModelConfig& c) {
  for (int layer = 0; layer < c.layers; ++layer) {
    const bool pair = files.Has(LayerTensor(c, layer, kSecond.scan.a_log));
    c.kinds[static_cast<size_t>(layer)] = pair ? LayerKind::kMambaPair : LayerKind::kMamba;
    if (!pair) continue;
    c.family = "diffmamba2";
    if (c.head_dim % 2 != 0 || c.scan_channels != 2 * c.hidden)
      Fail("config.json: head_dim, expand: got {} and {}, expected an even number and 2, as layer {} has two mixers",
           c.head_dim, c.scan_channels / c.hidden, layer);
  }
}

LayerWeights LoadMamba2Layer(Weights& weights, const ModelConfig& c, int layer) {
  LayerWeights w = LoadLayer(weights, c, layer);
  const bool pair = c.Kind(layer) == LayerKind::kMambaPair;
  const int64_t channels = pair ? c.PairChannels() : c.scan_channels;
  w.scan = ScanParametersOf(w, pair ? kFirst.scan : kOnly.scan, c, channels);
  if (!pair) return w;
  w.second_scan = ScanParametersOf(w, kSecond.scan, c, channels);
  const std::vector<float>& q1 = w.vectors.at(kLambdaQ1);
  const float sum = std::accumulate(q1.begin(), q1.end(), 0.0f), l0 = LambdaInit(layer);
  w.lambda = {1 / (1 + std::exp(-sum)) + l0};
  w.lambda_init = l0;
  w.head_norm = w.vectors.at(kMixerSubNorm);
  return w;
}

void Mamba2Forward(const LayerCall& call) {
  NormRows(call, call.weights.vectors.at(kMixerNorm));
  const bool pair = call.config.Kind(call.layer) == LayerKind::kMambaPair;
  pair ? MixMambaPair(call, kFirst.norm, kSecond.norm) : MixMamba2(call, kOnly.norm);
  AddDelta(call);
}

constexpr Family Mamba2(std::string_view name) {
  return {.name = name,
          .read = ReadMamba2Config,
          .names = {.embedding = "backbone.embeddings.weight",
                    .final_norm = "backbone.norm_f.weight",
                    .head = "lm_head.weight",
                    .layer = "backbone.layers."},
          .linear = kMamba2Linear,
          .vectors = kMamba2Vectors,
          .heads = LlamaHeads,
          .load = LoadMamba2Layer,
          .forward = Mamba2Forward,
          .rotation = Rotation::kNone,
          .smoothed = kMamba2Smoothed,
          .fit = FitMamba2,
          .examples = "nadavsc/mamba2-370M, diffmamba2-370M",
          .defaults = {.ffn = 1, .heads = 1, .head_dim = 64, .positions = 1 << 20}};
}

}  // namespace

constinit const Family kMamba2 = Mamba2("mamba2"), kDiffMamba2 = Mamba2("diffmamba2");

}  // namespace tare
