// SPDX-License-Identifier: Apache-2.0
// DiffLlama: as llama, but head j < H/2 has the maps j and j + H/2 of q and k, and the values of both side by side,
//   O_j = (1 - lambda_init) norm((softmax(Q_j K_j^T / sqrt(d)) - lambda softmax(Q_j' K_j'^T / sqrt(d))) [V_j, V_j'])
// with a head norm over 2d that has no weight.
#include "experiments/model/families/differential.h"
#include "experiments/model/families/llama.h"
#include "experiments/model/families/table.h"

namespace tare {
namespace {

constexpr auto kDiffLlamaVectors = Joined(kLlamaVectors, kLambdaVectors);

void ReadDiffLlamaConfig(const ConfigKeys& keys, ModelConfig& c) {
  ReadLlamaConfig(keys, c);
  keys.Refuse("head_pairing", {"\"halves\""});
  keys.Refuse("lambda_init");
  c.mlp_bias = false;  // transformers' DiffLlama has none, whatever the key says
  RequireEven(keys, "num_attention_heads", c.heads);
}

std::vector<OutputHead> HeadsOfDiffLlama(const ModelConfig& c) { return DiffLlamaHeads(c.heads, c.kv_heads); }

}  // namespace

// The head norm has no weight, so it is unaffected by a rotation of a head's values.
constinit const Family kDiffLlama = Changed(kLlama, [](Family& f) {
  f.name = "diffllama";
  f.examples = "kajuma/DiffLlama-0.3B-handcut, -1B, -1B-patch";
  f.read = ReadDiffLlamaConfig;
  f.vectors = kDiffLlamaVectors;
  f.heads = HeadsOfDiffLlama;
  f.load = LoadDifferentialLayer;
  f.forward = DifferentialForward;
  f.smoothed = kDifferentialSmoothed;
});

}  // namespace tare
