// SPDX-License-Identifier: Apache-2.0
// Which part of a plan is to blame, from a sweep of f32, the plan, and of each part (parts.h) two plans: it alone, and
// all but it. With F(.) a figure under a plan:
//
//   alone      F(part) - F(f32)            what it costs where all else is exact
//   taken out  F(plan) - F(all but part)   what it costs where all else is quantized
//   left over  F(plan) - F(f32) - sum of alone    0 where parts add up; above, they make each other worse
//
// The last is one contrast of all runs, each paired by item or by window, so that its error knows what they share.
#pragma once

#include <string>
#include <vector>

#include "experiments/studies/attribution/parts.h"
#include "experiments/studies/sweep/comparison.h"

namespace tare {

// The plans to be run, in this order: f32, the plan, each part alone, the plan without each.
std::vector<std::string> AttributionPlans(const Plan& plan, const std::vector<PlanPart>& parts);

struct PartEffect {
  PlanPart part;
  Comparison alone, taken_out;
};

struct Attribution {
  std::string task;
  FigureKeys figure;
  double baseline = 0, whole = 0;
  Comparison change;              // of the whole plan
  std::vector<PartEffect> parts;  // largest alone first
  Comparison sum;                 // of all alone
  Comparison left_over;
  int64_t count = 0;  // of the task's tokens or items
};

// Of one model, a figure each. p_holm is over all comparisons of figures that tables show. Throws Error where a cell of
// the plans is missing.
std::vector<Attribution> Attribute(const std::vector<SweepCell>& cells, const Plan& plan,
                                   const std::vector<PlanPart>& parts, const Resampling& resampling);

}  // namespace tare
