// SPDX-License-Identifier: Apache-2.0
// What a family's class in transformers 5.12.1 (configuration_NAME.py) sets where config.json lacks a key: one table,
// which tests/experiments/model/families/defaults_test.cc holds to the classes. A family that is not in it has no class
// there: its config.json must have the keys.
#pragma once

#include <string_view>

#include "experiments/model/config/family.h"

namespace tare {

struct FamilyDefaults {
  std::string_view family;
  ModelDefaults values;
};

// vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim,
// max_position_embeddings, rms_norm_eps (of CLIP layer_norm_eps), rope_theta, tie_word_embeddings.
inline constexpr FamilyDefaults kFamilyDefaults[]{
    {"llama", {32000, 4096, 11008, 32, 32, 0, 0, 2048, 1e-6}},
    {"diffllama", {32000, 2048, 8192, 16, 32, 0, 0, 2048, 1e-5}},
    {"qwen2", {151936, 4096, 22016, 32, 32, 32, 0, 32768, 1e-6}},
    {"qwen3", {151936, 4096, 22016, 32, 32, 32, 128, 32768, 1e-6}},
    {"mistral", {32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-6}},
    {"ministral", {32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-6}},
    {"olmo2", {50304, 4096, 11008, 32, 32, 0, 0, 2048, 1e-5}},
    {"olmo3", {50304, 4096, 11008, 32, 32, 0, 0, 2048, 1e-5}},
    {"gemma3_text", {262208, 2304, 9216, 26, 8, 4, 256, 131072, 1e-6, 1e6, true}},
    {"smollm3", {128256, 2048, 11008, 36, 16, 4, 0, 32768, 1e-6, 2e6, true}},
    {"granite", {32000, 4096, 11008, 32, 32, 0, 0, 2048, 1e-6}},
    {"phi3", {32064, 3072, 8192, 32, 32, 0, 0, 4096, 1e-5}},
    {"gpt_oss", {201088, 2880, 2880, 36, 64, 8, 64, 131072, 1e-5, 150000}},
    {"mixtral", {32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-5, 1e6}},
    {"qwen3_moe", {151936, 2048, 6144, 24, 32, 4, 0, 32768, 1e-6}},
    {"clip_text_model", {49408, 512, 2048, 12, 8, 0, 0, 77, 1e-5}},
    {"clip_vision_model", {0, 768, 3072, 12, 12, 0, 0, 2048, 1e-5}},
};

constexpr ModelDefaults DefaultsOf(std::string_view family) {
  for (const FamilyDefaults& row : kFamilyDefaults)
    if (row.family == family) return row.values;
  return {};
}

}  // namespace tare
