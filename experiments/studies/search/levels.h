// SPDX-License-Identifier: Apache-2.0
// The choices of a search. For each part, a site in one layer, they are its levels in the given plans, and no
// quantization. A plan gives every part one level: int8, int6 and int4 together give three levels to a weight, and one
// to an input of a linear layer, which is int8 in all of them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/model/config/config.h"
#include "experiments/studies/search/frontier.h"
#include "experiments/studies/sweep/sweep.h"
#include "quant/plan/plan.h"

namespace tare {

// Writes a choice per site and layer as few rules:
//
//   weights int4/channel, except down_proj.w in layers 0, 3  ->  weights=int4/channel,down_proj.w[l0]=int8/channel,..
//
// A site, or a group of sites, gets one rule for the level that saves the most text; runs of neighbouring layers with
// other levels get rules of their own.
inline constexpr const char* kUnquantized = "f32";

// For each site, the right sides of its rules by layer (one for a site outside the layers), "f32" for exact ones. Of a
// group (weights, linear_in), either all sites of the model are present or none.
std::string ShortRules(const std::map<Site, std::vector<std::string>>& sites);

struct PartLevel {
  std::string rule;  // the right side of its rule: "int4/token"
  int bits = 0;
  Plan plan;     // this level alone, everything else exact
  LevelCost of;  // bits x operands; the loss is set after it has run
};

struct SearchPart {
  std::string name;  // "q[l0]"
  Site site{};
  std::optional<int> layer;
  double operands = 0;            // per token (costs.h)
  std::vector<PartLevel> levels;  // the first is unquantized
};

// In the order of sites and layers. Throws Error for a plan that distinguishes heads or maps, or has fewer than two
// parts.
std::vector<SearchPart> SearchParts(const std::vector<Plan>& plans, const ModelConfig& config, int64_t window);

// f32, and every level alone.
std::vector<std::string> SensitivityPlans(const std::vector<SearchPart>& parts);
// The level that a plan gives to each part; empty if it leaves a part unquantized.
std::vector<size_t> LevelsOf(const Plan& plan, const std::vector<SearchPart>& parts, const ModelConfig& config,
                             int64_t window);
// Sets each level's loss, the mean divergence, from the cells of these plans.
void SetLosses(const std::vector<SweepCell>& cells, std::vector<SearchPart>& parts);

// One level for each part, as a plan.
std::string PlanAt(const std::vector<SearchPart>& parts, const std::vector<size_t>& levels, const ModelConfig& config);

}  // namespace tare
