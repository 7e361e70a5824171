// SPDX-License-Identifier: Apache-2.0
// The cost of each part of a plan, from a sweep of f32, the plan, and two plans for each part (parts.h): the part
// alone, and all but the part. With F(.) a figure under a plan:
//
//   alone      F(part) - F(f32)            its cost if all else is exact
//   taken out  F(plan) - F(all but part)   its cost if all else is quantized
//   left over  F(plan) - F(f32) - sum of alone    0 if costs add up; above 0, parts make each other worse
//
// The last is one contrast of all runs, paired by item or by window, so that its error accounts for what they share.
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
