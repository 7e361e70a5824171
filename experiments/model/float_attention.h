// SPDX-License-Identifier: Apache-2.0
// Attention of whole sequences in f32, the model's own path: simulated plans and statistics run on it. One task is one
// output head of one sequence; it packs the head's K and V once and goes through blocks of 64 query rows, holding one
// [64, S] block of attention logits a map, never [heads, T, T]. Products are oneDNN's f32 ukernel.
//
// The maps are subtracted after P x V (late order), as Hugging Face's diffllama computes it; where a visitor changes
// the difference, before it (equal in exact arithmetic, not in low bits).
//
// A sequence is a prefix and, optionally, branches that each continue it (the endings of a multiple-choice item): its
// rows lie one after another, prefix first. The mask applies to the prefix, and to the prefix followed by one branch: a
// branch's query does not see other branches, and a window counts positions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/heads.h"
#include "quant/observe/site_visitor.h"

namespace tare {

struct AttentionSequence {
  int64_t index = 0;              // of the whole input, for SiteBlock::sequence
  int64_t first_row = 0;          // row of the batch where the prefix begins
  int64_t prefix = 0;             // tokens, >= 1
  std::vector<int64_t> branches;  // tokens of each, after the prefix
  int64_t past = 0;               // tokens before the prefix, which a cache holds
};

struct FloatAttentionCall {
  AttentionProblem problem;  // tokens of q, k, v and out: the batch's rows
  std::span<const AttentionSequence> sequences;
  // For one block of rows of one output head the same thread shows in turn, and nothing in between: attn_logits
  // (scaled) and probs of map 1, both of map 2, difference. A quantizer's changes to probs and difference are used as
  // they are.
  SiteVisitors visitors;
  int layer = 0;
};

// Throws Error where heads or shapes do not agree, and where a visitor asks for a survey of probs or difference, which
// this pass does not have. Runs on all threads.
void FloatAttention(const FloatAttentionCall& call);

}  // namespace tare
