// SPDX-License-Identifier: Apache-2.0
// Which weights a job rounds, and what it cannot do with them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "experiments/model/config/config.h"
#include "experiments/plan/resolved_plan.h"
#include "experiments/quantize/quantize.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/plan/site.h"

namespace tare {

// Tensors that plans quantize, by name, and their sites.
std::map<std::string, SiteKey> WeightSites(const ModelConfig& config);

// The job's plan at the checkpoint's weights, with the static scales of the job's statistics.
ResolvedPlan PlanOfWeights(const QuantizeJob& job, const Checkpoint& files, const ModelConfig& config);

// Refuses whatever the plan and the method cannot do with these tensors, before the first is read; returns how many
// matrices the plan rounds.
int64_t CheckRounding(const QuantizeJob& job, const Checkpoint& files, const ModelConfig& config);

}  // namespace tare
