// SPDX-License-Identifier: Apache-2.0
// Attention of one layer without its model: q, k and v of another program take the same steps (Attend in decoder.cc)
// and visitors as in a model's pass, so a simulated plan changes the same bits.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "experiments/model/attention/float_attention.h"
#include "experiments/plan/model_sites.h"
#include "experiments/plan/resolved_plan.h"
#include "experiments/plan/simulated/query_means.h"
#include "experiments/plan/simulated/simulated_quantizer.h"
#include "kernels/attention/heads.h"
#include "quant/base/aligned.h"

namespace tare {

// Named "standard", "v1", "v2", "halves" or "diffllama", for these numbers of heads. Throws Error that starts so.
std::vector<OutputHead> HeadsNamed(std::string_view family, int q_heads, int k_heads, int v_heads);

// Attention's sites in these ascending layers: q, k, v, attn_logits, probs, head_out, and difference for two maps.
ModelSites AttentionSites(const AttentionProblem& problem, const std::vector<int>& layers);

// Throws Error for a plan that names none of these sites, or what attention by itself lacks: caches, and statistics.
void RequireRules(const Plan& plan);

class SimulatedAttention {
 public:
  // Throws Error for a rule that cannot be simulated there.
  SimulatedAttention(Plan plan, const ModelSites& sites) : plan_(std::move(plan), sites, Carrying::kSimulated) {}
  SimulatedAttention(const SimulatedAttention&) = delete;

  // problem: its tokens are the rows of all sequences, each with as many keys as queries. Observers see what the plan
  // makes of the sites. Uses all threads. Throws Error for other numbers of keys.
  void Run(const AttentionProblem& problem, std::span<const AttentionSequence> sequences, int layer,
           SiteVisitors observers = {});

 private:
  const ResolvedPlan plan_;
  QueryMeans means_{plan_};
  SimulatedQuantizer quantizer_{plan_};
  ZeroSink sink_{plan_.plan()};
  AlignedBuffer<float> q_, k_, v_;  // copies, which the plan changes
};

}  // namespace tare
