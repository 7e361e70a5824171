// SPDX-License-Identifier: Apache-2.0
// The cheapest plan within a loss: the losses of the parts alone (levels.h) give the frontier of an additive model
// (frontier.h), and a few points of that frontier are measured. The loss of parts together is not the sum of their
// losses alone, so the measurements decide: bisection along the frontier, from its cheap end.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/studies/search/levels.h"
#include "experiments/studies/sweep/comparison.h"

namespace tare {

// A point of the frontier that was run: the first task's cell is of divergence.
struct VerifiedPoint {
  size_t step = 0;  // of the frontier
  std::string plan;
  std::vector<SweepCell> cells;     // of each task
  std::vector<Comparison> changes;  // from f32; of each cell, its first figure
  double Loss() const { return changes.front().value; }
};

struct Search {
  std::string model;
  double within = 0;  // nats per token
  std::vector<SearchPart> parts;
  std::vector<FrontierPoint> frontier;
  std::vector<VerifiedPoint> verified;  // in the order of the frontier
  size_t answer = 0;                    // of these

  const VerifiedPoint& Answer() const { return verified[answer]; }
  // Mean bits of all parts' operands.
  double BitsAt(size_t step) const;
};

// Of the parts, once their losses are set.
std::vector<FrontierPoint> FrontierOf(const std::vector<SearchPart>& parts);

// Runs points, by their step, until the one after the answer is known to lose more than `within`, or the answer is the
// last. Throws Error where the frontier's second point loses more already: then only f32 is within.
void Verify(Search& search, const std::function<VerifiedPoint(size_t step)>& run);

// What a point's cells say, beside those of f32: cells of both, task by task.
VerifiedPoint PointOf(size_t step, const std::string& plan, const std::vector<SweepCell>& cells,
                      const Resampling& resampling);

}  // namespace tare
