// SPDX-License-Identifier: Apache-2.0
// The cheapest choice of one level per part, by an additive model: costs and losses add up.
//
//   minimise  sum of loss + mu x sum of cost   for every mu >= 0
//
// Each part follows the lower convex hull of its levels; the edges of all parts, in order of loss per cost saved, form
// the frontier. Its points are the corners of the convex hull of all choices: no choice lies below the lines between
// them.
//
// Or the choice of least loss within a cost, by the same model: a knapsack with a choice per part, by dynamic
// programming (Kellerer, Pferschy, Pisinger: Knapsack Problems, 2004, chapter 11).
//
// Costs are counted in steps: the greatest common divisor of what levels cost beyond their part's cheapest, if all are
// whole and at most 65,536 such steps are left of the budget; then the choice is the best one. Else what is left is cut
// into 65,536 steps, and costs are rounded up to whole ones: a choice never costs more than the budget, and loses no
// more than the best choice for a budget that is smaller by a step per part.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace tare {

struct LevelCost {
  double cost = 0, loss = 0;
};

struct FrontierPoint {
  std::vector<size_t> levels;  // of each part
  double cost = 0, loss = 0;   // sums
  size_t moved = 0;            // the part whose level differs from the point before; undefined for the first point
};

// Each part needs at least one level. Runs from the least loss to the least cost; losses below 0, which are noise,
// count as 0. Ties go to the earlier part.
std::vector<FrontierPoint> Frontier(const std::vector<std::vector<LevelCost>>& parts);

// Each part needs at least one level. Losses below 0, which are noise, count as 0. Of equal losses the cheaper choice.
// Empty if the cheapest levels together cost more than the budget.
std::optional<FrontierPoint> LeastLossWithin(double budget, const std::vector<std::vector<LevelCost>>& parts);

}  // namespace tare
