// SPDX-License-Identifier: Apache-2.0
// The families' records, each defined in the source with its name, and the sources of their formulas. table.cc lists
// them for lookup by name (experiments/model/config/family.h).
//
// Helpers to define a record as a changed copy of another:
//
//   constinit const Family kQwen2 = Changed(LikeLlama("qwen2", Read), [](Family& f) { f.linear = kLinear; });
//   constexpr auto kLinear = Changed(kLlamaLinear, [](auto& places) { At(places, Site::kOProjW).bias = nullptr; });
//   constexpr auto kVectors = Joined(kLlamaVectors, kLambdaVectors);
#pragma once

#include <algorithm>
#include <array>

#include "experiments/model/config/family.h"

namespace tare {

// Hugging Face transformers, modeling_NAME.py.
extern const Family kDiffLlama, kQwen2, kMistral, kMinistral, kOlmo2, kOlmo3, kSmolLm3, kGranite, kPhi3;
extern const Family kGemma3;  // gemma3_text: the text models, not those with a vision tower
extern const Family
    kQwen3;  // and its authors' gate on attention's output: arXiv 2505.06708, github.com/qiuzh20/gated_attention

// Differential attention as its authors wrote it (microsoft/unilm, Diff-Transformer and Diff-Transformer-V2), in layers
// like llama's.
extern const Family kDiffV1, kDiffV2;

// MotifForCausalLM (Motif-2.6B, Motif-2-12.7B), with differential attention or its grouped form.
extern const Family kMotif;

// Phi-4-mini-flash-reasoning (SambaY): Mamba, differential attention, shared keys and values, gated memory units.
extern const Family kPhi4Flash;

// OpenAI's gpt-oss: learned sinks, windows in every other layer, experts.
extern const Family kGptOss;
// As mistral and qwen3, with experts.
extern const Family kMixtral, kQwen3Moe;

// The towers of CLIP, as transformers' CLIPTextModelWithProjection and CLIPVisionModelWithProjection save them, and the
// same with differential attention (DiffCLIP, arXiv 2503.06626). A tower is a separate model: its head is the
// projection into the width that both towers share, and its input is token ids or images.
extern const Family kClipText, kClipVision, kDiffClipText, kDiffClipVision;

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

}  // namespace tare
