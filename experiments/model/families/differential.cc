// SPDX-License-Identifier: Apache-2.0
// DiffLlama: as llama, but head j < H/2 has the maps j and j + H/2 of q and k, and the values of both side by side,
//   O_j = (1 - lambda_init) norm((softmax(Q_j K_j^T / sqrt(d)) - lambda softmax(Q_j' K_j'^T / sqrt(d))) [V_j, V_j'])
// with a head norm over 2d that has no weight.
//
// V1: as diffllama, but head h has maps 2h and 2h + 1 of q, its key/value group's of k, and the group's two values side
// by side; W_o is out_proj; the head norm has a weight. As in diffllama, num_attention_heads counts maps: it and
// num_key_value_heads are twice the authors'. Its own keys, for other checkpoints with this attention:
//   rotary_layout      interleaved, or half-split
//   head_pairing       adjacent, or halves: maps h and h + H/2, as in diffllama
//   lambda_init        one number for all layers; default: 0.8 - 0.6 exp(-0.3 layer)
//   attn_rms_norm_eps  of the head norm, 1e-5; head_norm_weight false: it has no weight (the code before October 2024)
//
// V2: as llama, but output head h has the maps 2h and 2h + 1 of q over one key/value head, and
//   O_h = softmax(Q_2h K^T / sqrt(d)) V - lambda_h softmax(Q_2h+1 K^T / sqrt(d)) V,    lambda = sigmoid(W_lambda x)
// with a lambda per token and head, no head norm, and interleaved rotary positions. num_attention_heads counts maps,
// twice the authors' num_heads; num_key_value_heads is theirs. config.json must give head_dim: it does not halve.
#include "experiments/model/families/llama.h"

#include <cmath>
#include <numeric>

#include "kernels/elementwise/rows.h"
#include "quant/base/message.h"

namespace tare {
namespace {

using Pairing = ModelConfig::Pairing;

float ExpOfDot(const LayerWeights& w, std::string_view q, std::string_view k) {
  const std::vector<float>&a = w.vectors.at(q), &b = w.vectors.at(k);
  return std::exp(std::inner_product(a.begin(), a.end(), b.begin(), 0.0f));
}

// lambda_init is from the configuration, or follows from the layer's depth.
LayerWeights LoadDifferentialLayer(Weights& weights, const ModelConfig& config, int layer) {
  LayerWeights w = LoadLayer(weights, config, layer);
  SetLambda(w, config.lambda_init.value_or(LambdaInit(layer)));
  return w;
}

constexpr auto kDiffV1Linear =
    Changed(kLlamaLinear, [](auto& places) { At(places, Site::kOProjW).tensor = "self_attn.out_proj"; });
constexpr auto kDiffV1Vectors = Joined(kLlamaVectors, kLambdaVectors, kHeadNormVectors);

void ReadDiffV1Config(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  keys.Refuse("sliding_window");
  c.rotary.layout = RotaryConfig::Layout::kInterleaved;
  c.pairing = Pairing::kAdjacent;
  if (keys.Has("head_pairing")) {
    const std::string pairing = keys.Text("head_pairing");
    if (pairing != "adjacent" && pairing != "halves")
      Fail("{}: head_pairing: got '{}', expected adjacent or halves", keys.where(), pairing);
    if (pairing == "halves") c.pairing = Pairing::kHalves;
  }
  if (keys.Has("lambda_init")) c.lambda_init = static_cast<float>(keys.Positive("lambda_init"));
  c.head_norm_eps = static_cast<float>(keys.Positive("attn_rms_norm_eps", 1e-5));
  c.head_norm_weight = keys.Flag("head_norm_weight", true);
  RequireEven(keys, "num_attention_heads", c.heads);
  RequireEven(keys, "num_key_value_heads", c.kv_heads);
}

constexpr auto kLambdaProjection = std::to_array<LinearPlace>(
    {{Site::kLambdaProjW, "self_attn.lambda_proj", &LayerWeights::lambda_projection, nullptr, kInputNorm}});
constexpr auto kDiffV2Linear = Joined(kLlamaLinear, kLambdaProjection);

void ReadDiffV2Config(const ConfigKeys& keys, ModelConfig& c) {
  ReadDecoderConfig(keys, c);
  c.rotary.layout = RotaryConfig::Layout::kInterleaved;
  keys.Refuse("sliding_window");
  keys.Refuse("head_pairing", {"\"adjacent\""});
  keys.Refuse("lambda_init");
  if (c.heads % (2 * int64_t{c.kv_heads}) != 0)
    Fail(
        "{}: num_attention_heads: got {}, expected a multiple of twice num_key_value_heads {}: the two maps of a head "
        "share a key head",
        keys.where(), c.heads, c.kv_heads);
}

constexpr auto kDiffLlamaVectors = Joined(kLlamaVectors, kLambdaVectors);

void ReadDiffLlamaConfig(const ConfigKeys& keys, ModelConfig& c) {
  ReadLlamaConfig(keys, c);
  keys.Refuse("head_pairing", {"\"halves\""});
  keys.Refuse("lambda_init");
  c.mlp_bias = false;  // transformers' DiffLlama has none, whatever the key says
  RequireEven(keys, "num_attention_heads", c.heads);
}

}  // namespace

std::vector<OutputHead> DifferentialHeads(const ModelConfig& c) {
  return c.pairing == Pairing::kAdjacent ? GroupedHeads(c.heads, c.heads / 2, c.kv_heads)
                                         : DiffLlamaHeads(c.heads, c.kv_heads);
}

float LambdaInit(int depth) { return static_cast<float>(0.8 - 0.6 * std::exp(-0.3 * depth)); }

void SetLambda(LayerWeights& w, float lambda_init, const LambdaNames& names) {
  w.lambda_init = lambda_init;
  if (const auto norm = w.vectors.find(names.head_norm); norm != w.vectors.end()) w.head_norm = norm->second;
  w.lambda = {ExpOfDot(w, names.q1, names.k1) - ExpOfDot(w, names.q2, names.k2) + lambda_init};
}

void RequireEven(const ConfigKeys& keys, const char* key, int heads) {
  if (heads % 2 != 0)
    Fail("{}: {}: got {}, expected an even number: a differential head has two maps", keys.where(), key, heads);
}

void NormHeads(const LayerCall& call) {
  const auto heads = static_cast<int64_t>(call.weights.heads.size());
  const int64_t width = 2 * int64_t{call.config.head_dim};
  const std::vector<float>& weight = call.weights.head_norm;
  ForRows(call, [&](int64_t row) {
    for (int64_t h = 0; h < heads; ++h) {
      float* o = call.a.attended.data() + (row * heads + h) * width;
      RmsNorm(o, weight.empty() ? nullptr : weight.data(), HeadNormEps(call.config), width, o);
      ScaleInto(o, 1.0f - *call.weights.lambda_init, width, o);
    }
  });
}

// The head norm's weight treats the channels of a head differently.
constinit const Family kDiffV1 =
    Changed(LikeLlama("diff_v1", "the authors' modules (microsoft/unilm), guygrigsby/diff-mlx", ReadDiffV1Config),
            [](Family& f) {
              f.linear = kDiffV1Linear;
              f.vectors = kDiffV1Vectors;
              f.heads = DifferentialHeads;
              f.load = LoadDifferentialLayer;
              f.rotation = Rotation::kStream;
              f.smoothed = kDifferentialSmoothed;
            });

// Between V and o_proj there are only sums over tokens.
constinit const Family kDiffV2 =
    Changed(LikeLlama("diff_v2", "the authors' modules (microsoft/unilm)", ReadDiffV2Config), [](Family& f) {
      f.linear = kDiffV2Linear;
      f.heads = [](const ModelConfig& c) { return V2Heads(c.heads / 2, c.kv_heads); };
    });

// The head norm has no weight, so it is unaffected by a rotation of a head's values.
constinit const Family kDiffLlama = Changed(
    LikeLlama("diffllama", "kajuma/DiffLlama-0.3B-handcut, -1B, -1B-patch", ReadDiffLlamaConfig), [](Family& f) {
      f.vectors = kDiffLlamaVectors;
      f.heads = DifferentialHeads;
      f.load = LoadDifferentialLayer;
      f.smoothed = kDifferentialSmoothed;
    });

}  // namespace tare
