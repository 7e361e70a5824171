// SPDX-License-Identifier: Apache-2.0
// The choices of a search: for each part, a site in one layer, its levels in the given plans, and no quantization. A
// plan gives every part one level: int8, int6 and int4 give a weight three levels, and an input of a linear layer, int8
// in all, one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/model/config.h"
#include "experiments/studies/search/frontier.h"
#include "experiments/studies/sweep/sweep.h"

namespace tare {

struct PartLevel {
  std::string rule;  // right of its =: "int4/token"
  int bits = 0;
  std::string plan;  // it alone, all else exact
  LevelCost of;      // bits x operands; the loss is known once it has run
};

struct SearchPart {
  std::string name;  // "q[l0]"
  Site site{};
  std::optional<int> layer;
  double operands = 0;            // per token (operands.h)
  std::vector<PartLevel> levels;  // the first is not quantized
};

// In the order of sites and layers. Throws Error for a plan that distinguishes heads or maps, or has fewer than two
// parts.
std::vector<SearchPart> SearchParts(const std::vector<Plan>& plans, const ModelConfig& config, int64_t window);

// f32, and every level alone.
std::vector<std::string> SensitivityPlans(const std::vector<SearchPart>& parts);
// From their cells: the mean divergence.
void SetLosses(const std::vector<SweepCell>& cells, std::vector<SearchPart>& parts);

// Levels of the parts, one each, as a plan.
std::string PlanAt(const std::vector<SearchPart>& parts, const std::vector<size_t>& levels, const ModelConfig& config);

}  // namespace tare
