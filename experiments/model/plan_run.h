// SPDX-License-Identifier: Apache-2.0
// Runs a plan on a model, with caches if it decodes: simulated, where a visitor quantizes and dequantizes every site,
// or executed, where the integer kernels run its rules for attention and linear layers. The simulated plan is the
// reference for the executed one.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/model/sites_of_model.h"
#include "experiments/plan/cache_plan.h"
#include "experiments/plan/simulated/simulated_quantizer.h"
#include "experiments/plan/simulated/zero_sink.h"

namespace tare {

class PlanRun {
 public:
  // As ResolvedPlan. cache: what the plan's rules of caches are added to (CachePlanOf).
  PlanRun(Plan plan, Carrying carrying, const ModelSites& model, const StaticSource& statics = {},
          const std::optional<CachePlan>& cache = std::nullopt);
  PlanRun(const PlanRun&) = delete;

  // Tells the model how to compute attention and linear layers from now on; what it returns must see its passes.
  SiteVisitors Begin(Model& model);

  const Plan& plan() const { return resolved_.plan(); }
  Carrying carrying() const { return resolved_.carrying(); }
  // Nothing: sequences are passed whole.
  const std::optional<CachePlan>& cache() const { return cache_; }
  // For those who pass sequences whole. Throws Error where there is a cache.
  void RefuseCache(std::string_view where) const;
  // Whether sequences must be run whole, without sharing a common beginning.
  bool SpansRows() const { return carrying() == Carrying::kExecuted || resolved_.SpansRows(); }
  // Whether a scale may span later tokens than the query: one of a tensor, head or channel.
  bool LooksAhead() const { return resolved_.SpansRows(); }

 private:
  ResolvedPlan resolved_;
  std::optional<CachePlan> cache_;
  SimulatedQuantizer quantizer_;
  ZeroSink sink_;
  std::vector<SiteVisitor*> visitors_;
};

}  // namespace tare
