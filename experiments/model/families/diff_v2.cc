// SPDX-License-Identifier: Apache-2.0
// V2: as llama, but output head h has the maps 2h and 2h + 1 of q over one key/value head, and
//   O_h = softmax(Q_2h K^T / sqrt(d)) V - lambda_h softmax(Q_2h+1 K^T / sqrt(d)) V,    lambda = sigmoid(W_lambda x)
// with one lambda per token and head, no head norm, and interleaved rotary positions. num_attention_heads counts maps:
// it is twice the num_heads of the authors' module; num_key_value_heads is theirs. Because they double the maps without
// changing head_dim, config.json must give it.
#include "experiments/model/families/llama.h"
#include "experiments/model/families/table.h"
#include "quant/base/error.h"

namespace tare {
namespace {

constexpr auto kLambdaProjection =
    std::to_array<LinearPlace>({{Site::kLambdaProjW, Site::kLambdaProjIn, "self_attn.lambda_proj",
                                 &LayerWeights::lambda_projection, nullptr, kInputNorm}});
constexpr auto kDiffV2Linear = Joined(kLlamaLinear, kLambdaProjection);

void ReadDiffV2Config(const ConfigKeys& keys, ModelConfig& c) {
  ReadLlamaConfig(keys, c);
  c.rotary.layout = RotaryConfig::Layout::kInterleaved;
  keys.Refuse("head_pairing", {"\"adjacent\""});
  keys.Refuse("lambda_init");
  if (c.heads % (2 * int64_t{c.kv_heads}) != 0) {
    Fail(
        "{}: num_attention_heads: got {}, expected a multiple of twice num_key_value_heads {}: the two maps of a head "
        "share a key head",
        keys.where(), c.heads, c.kv_heads);
  }
}

std::vector<OutputHead> DiffV2Heads(const ModelConfig& c) { return V2Heads(c.heads / 2, c.kv_heads); }

}  // namespace

void DiffV2Forward(const LayerCall& call) {
  NormRows(call, call.weights.vectors.at(kInputNorm));
  ProjectQkv(call);
  RotateQk(call);
  Attend(call, ProjectLambda(call));
  ProjectOutput(call);
  AddDelta(call);
  NormRows(call, call.weights.vectors.at(kPostAttentionNorm));
  FeedForward(call);
  AddDelta(call);
}

// Between V and o_proj there are only sums over tokens.
constinit const Family kDiffV2 = Changed(kLlama, [](Family& f) {
  f.name = "diff_v2";
  f.examples = "the authors' modules (microsoft/unilm)";
  f.read = ReadDiffV2Config;
  f.linear = kDiffV2Linear;
  f.heads = DiffV2Heads;
  f.forward = DiffV2Forward;
});

}  // namespace tare
