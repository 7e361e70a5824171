// SPDX-License-Identifier: Apache-2.0
// One level per part of least loss within a cost, by the additive model of frontier.h: a knapsack with a choice per
// part, by dynamic programming (Kellerer, Pferschy, Pisinger: Knapsack Problems, 2004, chapter 11).
//
// Costs are counted in steps: the greatest common divisor of what levels cost beyond their part's cheapest, if all are
// whole and at most 65,536 such steps are left of the budget; then the choice is the best one. Else what is left is cut
// into 65,536 steps, and costs are rounded up to whole ones: a choice never costs more than the budget, and loses no
// more than the best choice for a budget that is smaller by a step per part.
#pragma once

#include <optional>
#include <vector>

#include "experiments/studies/search/frontier.h"

namespace tare {

// Each part needs at least one level. Losses below 0, which are noise, count as 0. Of equal losses the cheaper choice.
// Empty if the cheapest levels together cost more than the budget.
std::optional<FrontierPoint> LeastLossWithin(double budget, const std::vector<std::vector<LevelCost>>& parts);

}  // namespace tare
