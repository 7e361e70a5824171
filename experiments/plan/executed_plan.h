// SPDX-License-Identifier: Apache-2.0
// A plan's rules for attention, in the form that the integer kernels take. They support scales per token for q and k,
// per block and channel or per channel for v, per block for probs or difference, and per row for attn_logits, with one
// rule per site for all heads and maps of the layer.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "experiments/plan/model_sites.h"
#include "kernels/attention/attention_plan.h"
#include "quant/format/hadamard.h"

namespace tare {

class ResolvedPlan;

inline constexpr std::array kAttentionSites{Site::kQ,          Site::kK,     Site::kV,
                                            Site::kAttnLogits, Site::kProbs, Site::kDifference};

// Whether integer kernels, or those of caches, support the site.
bool HasKernel(Site site);

struct ExecutedPlan {
  AttentionPlan attention;
  bool smooth_q = false;  // the plan has +smooth
  bool smooth_k = false;
  bool smooth_v = false;
  std::optional<RotatedRuns> rotated_qk = {};  // +hadamard, of q and k alike
  std::optional<RotatedRuns> rotated_v = {};
};

// For one layer; empty if the plan leaves its attention in f32. Throws Error, naming the rule that the kernels cannot
// execute and what they support.
std::optional<ExecutedPlan> ExecutedPlanOf(const ResolvedPlan& plan, const ModelSites& model, int layer);

// For attention without a model: one layer with `heads` heads at every site. Throws Error, starting with `where`, for a
// plan without rules for attention.
ExecutedPlan ExecutedPlanOfText(const std::string& where, const std::string& plan, int heads);

}  // namespace tare
