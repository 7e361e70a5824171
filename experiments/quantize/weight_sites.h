// SPDX-License-Identifier: Apache-2.0
// Which site of a plan a checkpoint's tensor is, and what a plan may say of weights.
#pragma once

#include <map>
#include <string>

#include "experiments/model/config.h"
#include "quant/plan/plan.h"

namespace tare {

struct WeightSite {
  Site site{};
  int layer = -1;  // -1: outside the layers
};

// Tensors that plans quantize, by name.
std::map<std::string, WeightSite> WeightSites(const ModelConfig& config);

// The rule for a weight; null where it stays as stored.
const Rule* WeightRule(const Plan& plan, const WeightSite& weight);

// Throws Error naming the first rule for weights that cannot be carried out (options without a meaning here, layers
// that the model does not have), and for a plan that quantizes no weights. Rules for activations are for those who run
// the model later: the file keeps them.
void CheckWeightPlan(const Plan& plan, const ModelConfig& config);

}  // namespace tare
