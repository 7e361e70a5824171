// SPDX-License-Identifier: Apache-2.0
// Granite 3, dense: as llama, with four multipliers from the configuration, e, r, a and s.
//   x = e embedding;   x += r W_o softmax(a Q K^T) V,  Q, K, V of norm(x);   x += r FFN(norm(x));   logits = head / s
#include "experiments/model/families/llama.h"
#include "experiments/model/families/table.h"

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

}  // namespace

constinit const Family kGranite = Changed(kLlama, [](Family& f) {
  f.name = "granite";
  f.examples = "ibm-granite/granite-3.3-2b-base, -8b-base; only dense models";
  f.read = ReadGranite;
});

}  // namespace tare
