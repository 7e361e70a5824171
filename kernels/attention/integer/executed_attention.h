// SPDX-License-Identifier: Apache-2.0
// Attention in integers: standard, V1 and V2 heads, Q and K in int8/6/4 per token, V in int8/6/4 per block and channel
// or per channel, softmax probabilities (late order) or their difference (early order) as codes with one scale per row
// and key block. See code_stage.h for the formulas.
//
// Memory comes from the caller: the call allocates nothing, apart from oneDNN. Results are the same bits on any number
// of threads. Several threads may call at once, each with a workspace of its own, for as many threads as its call
// (parallel.h).
#pragma once

#include <cstddef>
#include <span>

#include "kernels/attention/attention_plan.h"

namespace tare {

// Bytes of the caller's workspace (with the means that the call will have), any content, aligned to 64: packed K and V,
// and at most 4 MiB per thread (of ParallelFor).
size_t WorkspaceBytes(const AttentionPlan& plan, const AttentionProblem& problem);

// Writes problem.out. Throws Error for what CheckProblem or CheckPlan refuse, a workspace too small or misaligned, NaN
// or Inf in Q, K, V or lambda, and, with some of the output written, for a query's largest logit of kMostLogit or more
// in magnitude (heads.h; of quantized logits: any of its logits).
void ExecutedAttention(const AttentionPlan& plan, const AttentionProblem& problem, std::span<std::byte> workspace);

}  // namespace tare
