// SPDX-License-Identifier: Apache-2.0
// The cheapest choice of one level per part, by an additive model: costs and losses add up.
//
//   minimise  sum of loss + mu x sum of cost   for every mu >= 0
//
// Each part follows the lower convex hull of its levels; the edges of all parts, in order of loss per cost saved, form
// the frontier. Its points are the corners of the convex hull of all choices: no choice lies below the lines between
// them.
#pragma once

#include <cstddef>
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

}  // namespace tare
