// SPDX-License-Identifier: Apache-2.0
// The families' records, each defined in the source with its name, and the sources of their formulas. table.cc lists
// them for lookup by name (experiments/model/config/family.h).
#pragma once

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

}  // namespace tare
