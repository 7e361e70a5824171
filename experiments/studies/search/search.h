// SPDX-License-Identifier: Apache-2.0
// The cheapest plan within a loss: the losses of the parts alone (levels.h) give the frontier of an additive model
// (frontier.h), and a few of its points are measured. Losses of parts together are not the sum of their losses alone,
// so the measurements decide, by bisection along the frontier from its cheap end.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/studies/search/levels.h"
#include "experiments/studies/sweep/comparison.h"

namespace tare {

// A measured point of the frontier. The first task's cell is that of divergence.
struct VerifiedPoint {
  size_t step = 0;  // of the frontier
  std::string plan;
  std::vector<SweepCell> cells;     // one per task
  std::vector<Comparison> changes;  // from f32, of each cell's first figure
  double Loss() const { return changes.front().value; }
};

struct Search {
  std::string model;
  double within = 0;  // nats per token
  std::vector<SearchPart> parts;
  std::vector<FrontierPoint> frontier;
  std::vector<VerifiedPoint> verified;  // in the order of the frontier
  size_t answer = 0;                    // index in verified

  const VerifiedPoint& Answer() const { return verified[answer]; }
  // Mean bits of all parts' operands.
  double BitsAt(size_t step) const;
};

// Call it after the parts' losses are set.
std::vector<FrontierPoint> FrontierOf(const std::vector<SearchPart>& parts);

// Measures points, by their step, until the point after the answer is known to lose more than `within`, or the answer
// is the last point. Throws Error if the frontier's second point already loses more: then only f32 is within.
void Verify(Search& search, const std::function<VerifiedPoint(size_t step)>& run);

// A point from its cells and those of f32, task by task.
VerifiedPoint PointOf(size_t step, const std::string& plan, const std::vector<SweepCell>& cells);

}  // namespace tare
