// SPDX-License-Identifier: Apache-2.0
// Attention of whole sequences in f32, the model's own path; simulated plans and statistics run on it. One task is one
// output head of one sequence: it packs the head's K and V once and processes blocks of 64 query rows, holding one [64,
// S] block of attention logits per map, never [heads, T, T]. Products run on oneDNN's f32 ukernel.
//
// The maps are subtracted after P x V (late order), as in Hugging Face's diffllama. If a visitor changes the
// difference, they are subtracted before it (equal in exact arithmetic, not in the last bits).
//
// A sequence is a prefix and, optionally, branches that each continue it (a multiple-choice item's endings), stored in
// that order. The mask applies to the prefix and one branch: no query sees other branches; windows count positions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/attention/heads.h"
#include "quant/observe/site_visitor.h"

namespace tare {

struct AttentionSequence {
  int64_t index = 0;              // in the whole input, for SiteBlock::sequence
  int64_t first_row = 0;          // the prefix's first row in the batch
  int64_t prefix = 0;             // tokens, >= 1
  std::vector<int64_t> branches;  // tokens of each branch
  int64_t past = 0;               // tokens before the prefix, in a cache
  // Tokens of the prefix and its longest branch, and the row of the batch after the last branch.
  int64_t Longest() const { return prefix + (branches.empty() ? 0 : std::ranges::max(branches)); }
  int64_t EndRow() const { return std::ranges::fold_left(branches, first_row + prefix, std::plus()); }
};

struct FloatAttentionCall {
  AttentionProblem problem;  // the tokens of q, k, v and out are the batch's rows
  std::span<const AttentionSequence> sequences;
  // For each block of rows of an output head, one thread shows without interruption: attn_logits (scaled) and probs of
  // map 1, both of map 2, difference. A quantizer's changes to probs and difference are used as they are.
  SiteVisitors visitors;
  int layer = 0;
};

// Throws Error for heads or shapes that do not agree, and visitors that survey probs or difference. Uses all threads.
void FloatAttention(const FloatAttentionCall& call);

}  // namespace tare
