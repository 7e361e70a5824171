// SPDX-License-Identifier: Apache-2.0
// A plan for a prompt and the text after it, over caches (experiments/passes/generate.h). Rules for attention (q, k,
// v, attn_logits, probs, difference) are executed for the prompt's tokens but the last, which are known before any of
// them passes; later tokens go through the decode kernel. All other rules hold for every token.
#pragma once

#include <optional>
#include <vector>

#include "experiments/plan/cache_plan.h"
#include "experiments/plan/executed_plan.h"

namespace tare {

struct PromptPlan {
  Plan others;
  std::vector<std::optional<ExecutedPlan>> attention;  // of the prompt, by layer; empty: the decode kernel's
};

// Throws Error, naming the rule, for rules of attention that the kernels cannot execute (executed_plan.h) or whose
// scales and means are of the whole prompt, which comes in parts; and, beside such rules, for a policy that moves the
// cache with every token.
PromptPlan PromptPlanOf(const Plan& plan, const ModelSites& model, const CachePolicy& policy);

}  // namespace tare
