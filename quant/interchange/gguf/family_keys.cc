// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/family_keys.h"

#include <cmath>

#include "quant/base/error.h"

namespace tare::gguf {
namespace {

constexpr std::string_view kWindow = "attention.sliding_window", kPattern = "attention.sliding_window_pattern";

// Every `period`-th layer sees all keys, or those that a list does not mark.
void AddWindows(int64_t period, ArchitectureKeys& keys, Json& config) {
  config["sliding_window"] = keys.Need(kWindow);
  if (!keys.IsArray(kPattern))
    return keys.Expect(kPattern, period, "the period of layers that see all keys (others are not supported)");
  config["layer_types"] = Json::array();
  for (const double slides : keys.Reals(kPattern, config["num_hidden_layers"]))
    config["layer_types"].push_back(slides != 0 ? "sliding_attention" : "full_attention");
}

void AddGemma(ArchitectureKeys& keys, Json& config) {
  constexpr int64_t kLayersOf27B = 62;
  const int64_t layers = config["num_hidden_layers"], hidden = config["hidden_size"];
  config["query_pre_attn_scalar"] = layers == kLayersOf27B ? hidden / config["num_attention_heads"].get<int64_t>()
                                                           : config["head_dim"].get<int64_t>();
  if (const auto cap = keys.Real("final_logit_softcapping")) config["final_logit_softcapping"] = *cap;
  config["rope_local_base_freq"] = keys.Real("rope.freq_base_swa").value_or(10000);
  const int64_t window = keys.Number(kWindow).value_or(0);
  config["sliding_window_pattern"] = window == 0 ? 1 : 6;
  if (window == 0) return keys.Ignore(kPattern);
  config["sliding_window"] = window;
  if (keys.IsArray(kPattern)) return AddWindows(6, keys, config);
  if (const auto period = keys.Number(kPattern)) config["sliding_window_pattern"] = *period;
}

void AddGranite(ArchitectureKeys& keys, Json& config) {
  const auto multiplier = [&](std::string_view key, double otherwise) {
    const double value = keys.Real(key).value_or(0);
    return value != 0 ? value : otherwise;  // llama.cpp's word for "not said"
  };
  if (!keys.Flag("rope.scaling.finetuned").value_or(true))
    Fail("{}: {}: got false, by which llama.cpp leaves rotary positions out, expected true (others are not supported)",
         keys.where(), keys.Name("rope.scaling.finetuned"));
  config["attention_multiplier"] = multiplier("attention.scale", 1 / std::sqrt(config["head_dim"].get<double>()));
  config["embedding_multiplier"] = multiplier("embedding_scale", 1);
  config["residual_multiplier"] = multiplier("residual_scale", 1);
  config["logits_scaling"] = multiplier("logit_scale", 1);
}

void AddExperts(const Architecture& a, ArchitectureKeys& keys, Json& config) {
  const int64_t width = keys.Number("expert_feed_forward_length").value_or(config["intermediate_size"]);
  const bool is_qwen = a.family == "qwen3_moe";
  constexpr int64_t kMostExperts = 16384;  // as of config.json
  const int64_t experts = keys.Need("expert_count");
  if (experts > kMostExperts)
    Fail("{}: {}: got {}, expected at most {}", keys.where(), keys.Name("expert_count"), experts, kMostExperts);
  config[is_qwen ? "num_experts" : "num_local_experts"] = experts;
  config["num_experts_per_tok"] = keys.Need("expert_used_count");
  config[is_qwen ? "moe_intermediate_size" : "intermediate_size"] = width;
  if (is_qwen) config["norm_topk_prob"] = true;
  keys.Expect("expert_shared_count", 0, "shared experts are not supported");
  constexpr int64_t kSoftmax = 1;
  if (a.family != "gpt_oss") keys.Expect("expert_gating_func", kSoftmax, "a softmax (others are not supported)");
}

}  // namespace

void AddFamilyKeys(const Architecture& a, ArchitectureKeys& keys, Json& config) {
  if (a.has_experts) AddExperts(a, keys, config);
  for (const char* key : {"expert_count", "expert_used_count"}) {
    if (!a.has_experts) keys.Expect(key, 0, "experts are not supported in this architecture");
  }
  if (a.family == "gemma3_text") AddGemma(keys, config);
  if (a.family == "granite") AddGranite(keys, config);
  if (a.family == "olmo3") AddWindows(4, keys, config);
  if (a.family == "olmo2") keys.Expect(kWindow, 0, "a window makes it an olmo3");
  if (a.family == "gpt_oss") AddWindows(2, keys, config);
  if (const int64_t window = a.family == "phi3" ? keys.Number(kWindow).value_or(0) : 0; window > 0)
    config["sliding_window"] = window;
}

}  // namespace tare::gguf
