// SPDX-License-Identifier: Apache-2.0
// Runs a plan on a model, or over caches: simulated, by a visitor that rounds every site (the reference), or executed,
// by integer kernels for attention and linear layers, with the visitor for inputs in formats that these do not take.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/plan/cache_plan.h"
#include "experiments/plan/model_sites.h"
#include "experiments/plan/plan_report.h"
#include "experiments/plan/resolved_plan.h"
#include "experiments/plan/simulated/query_means.h"
#include "experiments/plan/simulated/simulated_quantizer.h"

namespace tare {

// The sites that plans and statistics select from, for a model or for its configuration only.
ModelSites ModelSitesOf(const ModelConfig& config);
// Also fills in how the model's weights are stored.
ModelSites ModelSitesOf(const Model& model);

// A plan for a prompt and the text after it, over caches (experiments/passes/generate.h). Rules for attention (q, k,
// v, attn_logits, probs, difference) are executed for the prompt's tokens but the last, which are known before any of
// them passes; later tokens go through the decode kernel. All other rules hold for every token.
struct PromptPlan {
  Plan others;
  std::vector<std::optional<ExecutedPlan>> attention;  // of the prompt, by layer; empty: the decode kernel's
};

// Throws Error, naming the rule, for attention that kernels cannot execute (resolved_plan.h), for scales and means of
// the whole prompt, which comes in parts; and beside such rules, for a policy that moves the cache with every token.
PromptPlan PromptPlanOf(const Plan& plan, const ModelSites& model, const CachePolicy& policy);

class PlanRun {
 public:
  // As the constructor of ResolvedPlan. cache: what the plan's rules for caches are added to (CachePlanOf).
  PlanRun(Plan plan, Carrying carrying, const ModelSites& model, const StaticSource& statics = {},
          const std::optional<CachePlan>& cache = std::nullopt);
  PlanRun(const PlanRun&) = delete;

  // As above, but executes the attention of prompts.
  PlanRun(PromptPlan plan, const ModelSites& model, const CachePlan& cache, const StaticSource& statics = {});
  // Layers that runs share (Execution::streams).
  void Share(KeptStreams* streams) { streams_ = streams; }
  // SimulatedQuantizer::OnGroup, of a simulated plan.
  void OnGroup(SimulatedQuantizer::SeeGroup see) { quantizer_.OnGroup(std::move(see)); }
  // Sets how the model computes attention and linear layers; its passes must show their sites to the returned visitors.
  SiteVisitors Begin(Model& model, const Model::PlanProgress& progress = {});

  const Plan& plan() const { return resolved_.plan(); }
  Carrying carrying() const { return resolved_.carrying(); }
  // Empty if sequences are passed whole.
  const std::optional<CachePlan>& cache() const { return cache_; }
  // For callers that pass sequences whole. Throws Error if there is a cache.
  void RefuseCache(std::string_view where) const;
  // Whether sequences must be run whole, without sharing a common beginning: where attention is executed, as its blocks
  // of keys may end with other tokens, or a scale spans rows. Executed linear layers take each row by itself.
  bool SpansRows() const { return ExecutesAttention() || resolved_.SpansRows(); }
  // Whether a scale may span later tokens than the query: one per tensor, head or channel.
  bool LooksAhead() const { return resolved_.SpansRows(); }
  // Whether tokens can be run one by one, over a cache.
  bool Decodes() const { return WhyNotDecoded(resolved_).empty(); }
  // Bits of keys and values under the plan, and in caches since the last call. Throws Error if these rounded nothing.
  std::optional<KeyValueBits> TakeKeyValueBits();

 private:
  bool ExecutesAttention() const;

  ResolvedPlan resolved_;
  std::vector<std::optional<ExecutedPlan>> prompts_;
  KeptStreams* streams_ = nullptr;
  std::optional<CachePlan> cache_;
  ModelSites sites_;
  QueryMeans means_;
  SimulatedQuantizer quantizer_;
  ZeroSink sink_;
  std::vector<SiteVisitor*> visitors_;
};

}  // namespace tare
