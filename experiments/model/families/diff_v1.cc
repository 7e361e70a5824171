// SPDX-License-Identifier: Apache-2.0
// V1: as diffllama, but head h has the maps 2h and 2h + 1 of q, those of its key/value group of k, and the group's two
// values side by side; W_o is out_proj; the head norm has a weight. num_attention_heads counts maps, as in diffllama:
// it is twice the num_heads of the authors' module, and num_key_value_heads is twice theirs. Its own keys, for other
// checkpoints with this attention:
//   rotary_layout      interleaved, or half-split
//   head_pairing       adjacent, or halves: maps h and h + H/2, as in diffllama
//   lambda_init        one number for all layers; default: 0.8 - 0.6 exp(-0.3 layer)
//   attn_rms_norm_eps  of the head norm, 1e-5; head_norm_weight false: it has no weight (the code before October 2024)
#include "experiments/model/families/differential.h"
#include "experiments/model/families/llama.h"
#include "experiments/model/families/table.h"
#include "quant/base/error.h"

namespace tare {
namespace {

using Pairing = ModelConfig::Pairing;

constexpr auto kDiffV1Linear =
    Changed(kLlamaLinear, [](auto& places) { At(places, Site::kOProjW).tensor = "self_attn.out_proj"; });
constexpr auto kDiffV1Vectors = Joined(kLlamaVectors, kLambdaVectors, kHeadNormVectors);

void ReadDiffV1Config(const ConfigKeys& keys, ModelConfig& c) {
  ReadLlamaConfig(keys, c);
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

std::vector<OutputHead> DiffV1Heads(const ModelConfig& c) {
  return c.pairing == Pairing::kAdjacent ? GroupedHeads(c.heads, c.heads / 2, c.kv_heads)
                                         : DiffLlamaHeads(c.heads, c.kv_heads);
}

}  // namespace

// The head norm's weight treats the channels of a head differently.
constinit const Family kDiffV1 = Changed(kLlama, [](Family& f) {
  f.name = "diff_v1";
  f.examples = "the authors' modules (microsoft/unilm)";
  f.read = ReadDiffV1Config;
  f.linear = kDiffV1Linear;
  f.vectors = kDiffV1Vectors;
  f.heads = DiffV1Heads;
  f.load = LoadDifferentialLayer;
  f.forward = DifferentialForward;
  f.rotation = Rotation::kStream;
  f.smoothed = kDifferentialSmoothed;
});

}  // namespace tare
