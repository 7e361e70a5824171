// SPDX-License-Identifier: Apache-2.0
// The cheapest of all ways to choose one level per part, by an additive model: costs add up, and losses do.
//
//   minimise  sum of loss + mu x sum of cost   for every mu >= 0
//
// Each part by itself goes down the lower convex hull of its levels; all their edges in the order of loss per cost
// saved are the frontier. Its points are the corners of the convex hull of all choices: no choice of the parts lies
// below the lines between them.
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
  size_t moved = 0;            // the part that is another level than at the point before; of the first, no matter
};

// Each part with one level or more. From the least loss to the least cost; losses below 0, which are noise, count 0.
// Ties go to the earlier part.
std::vector<FrontierPoint> Frontier(const std::vector<std::vector<LevelCost>>& parts);

}  // namespace tare
