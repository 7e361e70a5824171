// SPDX-License-Identifier: Apache-2.0
// Attention of new tokens over their sequences' caches: by the decode kernel (kernels/decode/), or, of a prompt whose
// attention a plan executes, on the integer kernels (prompt_attention.h). The tokens' keys and values join the caches
// first, so a query sees all tokens before it and its own; in a layer that shares keys those of an earlier layer have.
#pragma once

#include <span>
#include <vector>

#include "experiments/model/attention/float_attention.h"
#include "experiments/model/attention/prompt_attention.h"
#include "experiments/model/attention/sequence_cache.h"
#include "kernels/decode/decode_heads.h"
#include "quant/base/aligned.h"

namespace tare {

// Shared by the layers and passes of one model.
struct DecodeScratch {
  std::vector<DecodeHeads> heads;  // the model's table, for each window and skip in use
  AlignedBuffer<std::byte> workspace;
  PromptMemory prompt;
};

// The rows of one sequence in the batch.
AttentionProblem SequenceRows(const AttentionSequence& sequence, const AttentionProblem& batch);

// caches: one per sequence. of_prompts: executed for tokens of prompts (SequenceCache::InPrompt); null: the decode
// kernel takes all. Throws Error for branches, which share no cache, and for values that are not finite.
void CachedAttention(const AttentionProblem& problem, std::span<const AttentionSequence> sequences,
                     std::span<SequenceCache* const> caches, int layer, const ExecutedPlan* of_prompts,
                     DecodeScratch& scratch);

}  // namespace tare
