// SPDX-License-Identifier: Apache-2.0
// A plan's rules for attention, as the integer kernels take them. What they execute: q and k a token, v a block and
// channel or a channel, probs or difference a block, attn_logits a row; one rule a site for all heads and maps of the
// layer.
#pragma once

#include <vector>

#include "kernels/attention/attention_plan.h"
#include "quant/plan/plan.h"

namespace tare {

// Memory of the vectors that +smooth subtracts.
struct SmoothingMeans {
  std::vector<float> q, k, v;
};

struct ExecutedPlan {
  AttentionPlan attention;
  bool smooth_q = false;  // +smooth was asked for
  bool smooth_k = false;
  bool smooth_v = false;

  // The plan for one sequence: with the means of its Q, K and V that were asked for, which live in `means`.
  AttentionPlan For(const AttentionProblem& sequence, SmoothingMeans& means) const;
};

// Throws Error naming the rule that the kernels cannot execute, and what they can.
ExecutedPlan ExecutedPlanOf(const Plan& plan, int layer, int heads);

}  // namespace tare
