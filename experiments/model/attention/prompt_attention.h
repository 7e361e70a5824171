// SPDX-License-Identifier: Apache-2.0
// Attention of a part of a prompt over its sequence's cache, on the integer kernels (kernels/attention/integer/): many
// queries at once, whose keys and values are in the cache already. They see what it holds, read back to f32 and rounded
// once more as the plan says. Blocks of values count from the first token: parts of whole blocks, the last aside, give
// the bits of one call for the whole prompt. A block that a part ends in has, for this part, the scale of its tokens so
// far.
#pragma once

#include "experiments/plan/executed_plan.h"
#include "kernels/cache/kv_cache.h"

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

}  // namespace tare
