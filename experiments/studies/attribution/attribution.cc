// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/attribution.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

// The cells of one task, by their plans.
struct Runs {
  const std::vector<SweepCell>& cells;
  const std::string& task;

  const SweepCell& Of(const std::string& plan) const {
    for (const SweepCell& cell : cells) {
      if (cell.task == task && cell.Plan() == plan) return cell;
    }
    Fail("{} under {}: got no finished cell, expected one; try tare attribute without --cells", task, plan);
  }
  const Figure* Of(const std::string& plan, size_t figure) const { return &Of(plan).figures.list[figure]; }
};

Attribution OfFigure(const Runs& runs, size_t i, const Plan& plan, const std::vector<PlanPart>& parts,
                     const Resampling& resampling) {
  const Figure* const exact = runs.Of("f32", i);
  const Figure* const whole = runs.Of(plan.canonical(), i);
  Attribution a{.task = runs.task,
                .figure = exact->keys,
                .baseline = exact->value,
                .whole = whole->value,
                .change = Compare({exact, whole}, {-1, 1}, resampling),
                .parts = {},
                .sum = {},
                .left_over = {}};
  std::vector<const Figure*> all{exact};
  std::vector<double> sum{-static_cast<double>(parts.size())};
  for (const PlanPart& part : parts) {
    const Figure* const alone = runs.Of(part.alone.canonical(), i);
    const Figure* const without = runs.Of(part.without.canonical(), i);
    a.parts.push_back(
        {part, Compare({exact, alone}, {-1, 1}, resampling), Compare({without, whole}, {-1, 1}, resampling)});
    all.push_back(alone);
    sum.push_back(1);
  }
  a.sum = Compare(all, sum, resampling);
  std::vector<double> left_over;
  for (const double sign : sum) left_over.push_back(-sign);
  left_over.front() -= 1;
  left_over.push_back(1);
  all.push_back(whole);
  a.left_over = Compare(all, left_over, resampling);
  std::ranges::stable_sort(a.parts, std::greater{}, [](const PartEffect& p) { return std::abs(p.alone.value); });
  return a;
}

}  // namespace

std::vector<std::string> AttributionPlans(const Plan& plan, const std::vector<PlanPart>& parts) {
  std::vector<std::string> plans{"f32", plan.canonical()};
  for (const PlanPart& part : parts) plans.push_back(part.alone.canonical());
  for (const PlanPart& part : parts) plans.push_back(part.without.canonical());
  return plans;
}

std::vector<Attribution> Attribute(const std::vector<SweepCell>& cells, const Plan& plan,
                                   const std::vector<PlanPart>& parts, const Resampling& resampling) {
  std::vector<Attribution> all;
  std::vector<std::string> tasks;
  for (const SweepCell& cell : cells) {
    if (!std::ranges::contains(tasks, cell.task)) tasks.push_back(cell.task);
  }
  for (const std::string& task : tasks) {
    const Runs runs{cells, task};
    for (size_t i = 0; i < runs.Of("f32").figures.list.size(); ++i) {
      all.push_back(OfFigure(runs, i, plan, parts, resampling));
      all.back().count = runs.Of("f32").figures.count;
    }
  }
  std::vector<Comparison*> shown;
  for (Attribution& a : all) {
    if (a.figure.in_tables == nullptr) continue;
    shown.insert(shown.end(), {&a.change, &a.left_over});
    for (PartEffect& part : a.parts) shown.insert(shown.end(), {&part.alone, &part.taken_out});
  }
  AddHolm(shown);
  return all;
}

}  // namespace tare
