// SPDX-License-Identifier: Apache-2.0
// A plan's rules for attention, in the form that the integer kernels take. They support scales of q and k per token, of
// v per block and channel or per channel, of probs or difference per block, of attn_logits per row; one rule per site
// for all heads and maps of the layer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/plan/model_sites.h"
#include "kernels/attention/attention_plan.h"

namespace tare {

class ResolvedPlan;

// Memory of the vectors that +smooth subtracts.
struct SmoothingMeans {
  std::vector<float> q, k, v;
};

struct ExecutedPlan {
  AttentionPlan attention;
  bool smooth_q = false;  // the plan has +smooth
  bool smooth_k = false;
  bool smooth_v = false;

  // The plan for one sequence: with the requested means of its Q, K and V, which live in `means`.
  AttentionPlan For(const AttentionProblem& sequence, SmoothingMeans& means) const;
};

// Of one layer; nothing where the plan leaves its attention in f32. Throws Error naming the rule that the kernels
// cannot execute, and what they can.
std::optional<ExecutedPlan> ExecutedPlanOf(const ResolvedPlan& plan, const ModelSites& model, int layer);

// Of attention without a model: one layer with `heads` heads at every site. Throws Error, beginning with `where`, for a
// plan without rules for attention.
ExecutedPlan ExecutedPlanOfText(const std::string& where, const std::string& plan, int heads);

}  // namespace tare
