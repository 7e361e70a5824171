// SPDX-License-Identifier: Apache-2.0
// A plan's rules for attention, in the form that the integer kernels take. They support scales per token for q and k,
// per block and channel or per channel for v, per block for probs or difference, and per row for attn_logits, with one
// rule per site for all heads and maps of the layer.
//
// ExecutedSequence takes one sequence through attention on those kernels, with the means of Q, K and V that
// +smooth subtracts, and with rows that +hadamard rotates. Products of Q and K do not change if both are rotated; of V,
// the outputs are rotated back.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/plan/model_sites.h"
#include "kernels/attention/attention_plan.h"
#include "quant/base/aligned.h"
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

// Grows with the largest sequence, and is kept.
struct ExecutedMemory {
  std::vector<float> q_mean, k_mean, v_mean;
  AlignedBuffer<float> q, k, v;  // rotated rows
};

class ExecutedSequence {
 public:
  // The memory must outlive it. Uses all threads. Throws Error where no rotation of the heads' width is known.
  ExecutedSequence(const ExecutedPlan& plan, const AttentionProblem& sequence, ExecutedMemory& memory);

  size_t WorkspaceBytes() const;
  void Run(std::span<std::byte> workspace) const;

 private:
  AttentionPlan plan_;
  AttentionProblem problem_;
  const Hadamard* of_outputs_;  // of each slice of V; null: not rotated
};

}  // namespace tare
