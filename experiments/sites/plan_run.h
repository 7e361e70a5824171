// SPDX-License-Identifier: Apache-2.0
// A plan carried out on a model: simulated, every site by a visitor that quantizes and dequantizes, or executed, its
// rules for attention and linear layers on the integer kernels. The simulated plan is the reference of the executed
// one.
#pragma once

#include <optional>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/sites/simulated_quantizer.h"

namespace tare {

enum class Carrying { kSimulated, kExecuted };

class PlanRun {
 public:
  // statics: for rules with +static. Throws Error naming a rule that cannot be simulated, or executed.
  PlanRun(Plan plan, Carrying carrying, const ModelConfig& config, StaticSource statics = {});

  // Tells the model how to compute attention and linear layers from now on; what it returns must see its passes.
  SiteVisitors Begin(Model& model);

  const Plan& plan() const { return quantizer_.plan(); }
  Carrying carrying() const { return carrying_; }
  // Whether sequences must be run whole, without sharing a common beginning.
  bool SpansRows() const { return carrying_ == Carrying::kExecuted || quantizer_.SpansRows(); }
  // Whether a scale may span later tokens than the query: one of a tensor, head or channel.
  bool LooksAhead() const { return quantizer_.SpansRows(); }

 private:
  Carrying carrying_;
  SimulatedQuantizer quantizer_;
  std::vector<std::optional<ExecutedPlan>> attention_;
  std::vector<SiteVisitor*> visitors_;
};

}  // namespace tare
