// SPDX-License-Identifier: Apache-2.0
// The families' records, each defined in the source with its name, and the sources of their formulas. table.cc lists
// them for lookup by name (experiments/model/config/family.h). And the defaults of their keys.
//
// Helpers to define a record as a changed copy of another:
//
//   constinit const Family kQwen2 = Changed(LikeLlama("qwen2", Read), [](Family& f) { f.linear = kLinear; });
//   constexpr auto kLinear = Changed(kLlamaLinear, [](auto& places) { At(places, Site::kOProjW).bias = nullptr; });
//   constexpr auto kVectors = Joined(kLlamaVectors, kLambdaVectors);
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "experiments/model/config/family.h"

namespace tare {

// Hugging Face transformers, modeling_NAME.py.
extern const Family kDiffLlama, kQwen2, kMistral, kMinistral, kOlmo2, kOlmo3, kSmolLm3, kGranite, kPhi3;
extern const Family kGemma3;  // gemma3_text: the text models, not those with a vision tower
extern const Family
    kQwen3;  // and its authors' gate on attention's output: arXiv 2505.06708, github.com/qiuzh20/gated_attention

// Differential attention as its authors wrote it (microsoft/unilm, Diff-Transformer, -V2), in layers like llama's.
extern const Family kDiffV1, kDiffV2;

// MotifForCausalLM (Motif-2.6B, Motif-2-12.7B), with differential attention or its grouped form.
extern const Family kMotif;
// Motif-3: that class with attention_cls gdla.
extern const Family kMotif3;

// Phi-4-mini-flash-reasoning (SambaY): Mamba, differential attention, shared keys and values, gated memory units.
extern const Family kPhi4Flash;

// Mamba-2 as transformers saves it, and Diff-Mamba2 (github.com/NadavSc/Diff-Mamba), which subtracts one from another.
extern const Family kMamba2, kDiffMamba2;

// OpenAI's gpt-oss: learned sinks, windows in every other layer, experts.
extern const Family kGptOss;
// flash-linear-attention's transformer, with softpick in the place of the softmax, or without.
extern const Family kTransformer;
// As mistral and qwen3, with experts.
extern const Family kMixtral, kQwen3Moe;

// CLIP's towers as transformers' CLIPTextModelWithProjection and CLIPVisionModelWithProjection, and DiffCLIP's (arXiv
// 2503.06626). Each is a model: token ids or images in, and the projection to the shared width as head.
extern const Family kClipText, kClipVision, kDiffClipText, kDiffClipVision;

// timm's vision transformers, standard and differential: registers, mean pooling; blocks as CLIP's, or parallel.
extern const Family kVit, kDiffVit, kParallelVit, kDiffParallelVit;

// A changed copy of the record or table.
template <typename Record, typename Change>
constexpr Record Changed(Record record, Change change) {
  change(record);
  return record;
}

// The places of several tables, in order.
template <typename Place, size_t... kCounts>
constexpr std::array<Place, (0 + ... + kCounts)> Joined(const std::array<Place, kCounts>&... tables) {
  std::array<Place, (0 + ... + kCounts)> all;
  auto end = all.begin();
  ((end = std::ranges::copy(tables, end).out), ...);
  return all;
}

// The place of a linear layer in the table, which must have it.
template <size_t kCount>
constexpr LinearPlace& At(std::array<LinearPlace, kCount>& places, Site weight) {
  return *std::ranges::find(places, weight, &LinearPlace::weight);
}

// What transformers 5.12.1 (configuration_NAME.py) sets where config.json lacks a key; a test compares them. A family
// that is not here has no class there: its config.json must have the keys.
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
