// SPDX-License-Identifier: Apache-2.0
// Attention of new tokens over their sequences' caches: by the decode kernel (kernels/decode/), or, of a prompt whose
// attention a plan executes, on the integer kernels. The tokens' keys and values join the caches first, so a query sees
// all tokens before it and its own; in a layer that shares keys those of an earlier layer have.
//
// A part of a prompt is many queries at once on the integer kernels (kernels/attention/integer/). They see what the
// cache holds, read back to f32 and rounded once more as the plan says. Blocks of values count from the first token:
// parts of whole blocks, the last aside, give the bits of one call for the whole prompt. A block that a part ends in
// has, for this part, the scale of its tokens so far.
#pragma once

#include <span>
#include <vector>

#include "experiments/model/attention/float_attention.h"
#include "experiments/model/attention/sequence_cache.h"
#include "experiments/plan/executed_plan.h"
#include "kernels/cache/kv_cache.h"
#include "kernels/decode/decode_heads.h"
#include "quant/base/aligned.h"

namespace tare {

// Grows with the longest prompt: of one layer, its keys and values in f32, and their codes.
struct PromptMemory {
  AlignedBuffer<float> k, v;  // [S][k heads][d] [S][v heads][width]
  ExecutedMemory executed;
  AlignedBuffer<std::byte> workspace;
};

// part: its queries are of the cache's newest tokens; keys and values are not read, and their heads are the cache's.
// Throws Error for queries that are not finite.
void PromptAttention(const ExecutedPlan& plan, const AttentionProblem& part, const KvCache& cache,
                     PromptMemory& memory);

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
