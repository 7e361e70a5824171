// SPDX-License-Identifier: Apache-2.0
// The cheapest plan within a loss: the losses of the parts alone (levels.h) give the frontier of an additive model
// (frontier.h), and a few of its points are measured. Losses of parts together are not the sum of their losses alone,
// so the measurements decide, by bisection along the frontier from its cheap end.
//
// Or the least loss within a size, by the same model: the choice (frontier.h, too) is measured beside the largest of the given
// plans that fits, which has one level for all parts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/studies/search/costs.h"
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

// For the parts' matrices together, beside all other tensors.
struct SearchBudget {
  double bits = 0;
  StoredBits stored;
};

struct Search {
  std::string model;
  double within = 0;                   // nats per token
  std::optional<SearchBudget> budget;  // instead of it
  std::vector<SearchPart> parts;
  std::vector<FrontierPoint> frontier;  // with a budget: the plan beside the choice, if there is one, and the choice
  std::vector<VerifiedPoint> verified;  // in the order of the frontier
  size_t answer = 0;                    // index in verified

  const VerifiedPoint& Answer() const { return verified[answer]; }
  // Mean bits of all parts' operands; with a budget, of their weights with scales.
  double BitsAt(size_t step) const;
};

// Call it after the parts' losses are set.
std::vector<FrontierPoint> FrontierOf(const std::vector<SearchPart>& parts);

// Throws Error unless the smallest levels fit into the budget. Call it before anything runs.
void RequireRoom(const SearchBudget& budget, const std::vector<SearchPart>& parts);

// The same as FrontierOf with a budget that has room. uniform: the given plans' levels (LevelsOf).
std::vector<FrontierPoint> ChoicesWithin(const SearchBudget& budget, const std::vector<SearchPart>& parts,
                                         const std::vector<std::vector<size_t>>& uniform);

// With a budget it measures all points, and the answer is the one that loses least. Else it measures points, by their
// step, until the point after the answer is known to lose more than `within`, or the answer is the last point. Throws
// Error if the frontier's second point already loses more: then only f32 is within.
void Verify(Search& search, const std::function<VerifiedPoint(size_t step)>& run);

// A point from its cells and those of f32, task by task.
VerifiedPoint PointOf(size_t step, const std::string& plan, const std::vector<SweepCell>& cells);

}  // namespace tare
