// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/attribution_pair.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "quant/base/error.h"

namespace tare {
namespace {

// One figure of one model's runs of one task.
struct FigureRuns {
  const AttributedModel& model;
  const Attribution& of;

  const Figure* Under(const std::string& plan) const {
    for (const SweepCell& cell : model.cells) {
      if (cell.task != of.task || cell.Plan() != plan) continue;
      const auto figure = std::ranges::find_if(
          cell.figures.list, [&](const Figure& f) { return std::string_view(f.keys.name) == of.figure.name; });
      if (figure != cell.figures.list.end()) return &*figure;
    }
    Fail("{} under {}: got no finished cell, expected one of each part", of.task, plan);
  }
  const PartEffect* Part(const std::string& name) const {
    const auto found = std::ranges::find(of.parts, name, [](const PartEffect& p) { return p.part.name; });
    return found == of.parts.end() ? nullptr : &*found;
  }
};

// Plans may be spelt differently in the two: a part is of its own model.
Comparison Difference(const FigureRuns& first, const std::string& first_plan, const FigureRuns& second,
                      const std::string& second_plan, const Resampling& resampling) {
  return Compare({first.Under("f32"), first.Under(first_plan), second.Under("f32"), second.Under(second_plan)},
                 {1, -1, -1, 1}, resampling);
}

PartPair PairPart(const std::string& name, const FigureRuns& first, const FigureRuns& second,
                  const Resampling& resampling) {
  const PartEffect *const a = first.Part(name), *const b = second.Part(name);
  PartPair pair{.part = name, .first = {}, .second = {}, .difference = {}};
  if (a != nullptr) pair.first = a->alone.value;
  if (b != nullptr) pair.second = b->alone.value;
  if (a != nullptr && b != nullptr)
    pair.difference = Difference(first, a->part.alone.canonical(), second, b->part.alone.canonical(), resampling);
  return pair;
}

AttributionPair PairFigure(const FigureRuns& first, const FigureRuns& second, const Plan& plan,
                           const Resampling& resampling) {
  AttributionPair pair{
      .task = first.of.task,
      .figure = first.of.figure,
      .parts = {},
      .whole = {.part = "",
                .first = first.of.change.value,
                .second = second.of.change.value,
                .difference = Difference(first, plan.canonical(), second, plan.canonical(), resampling)}};
  for (const PartEffect& p : first.of.parts) pair.parts.push_back(PairPart(p.part.name, first, second, resampling));
  for (const PartEffect& p : second.of.parts) {
    if (first.Part(p.part.name) == nullptr) pair.parts.push_back(PairPart(p.part.name, first, second, resampling));
  }
  std::ranges::stable_sort(pair.parts, std::greater(), [](const PartPair& p) {
    return std::max(std::abs(p.first.value_or(0)), std::abs(p.second.value_or(0)));
  });
  return pair;
}

}  // namespace

std::vector<AttributionPair> PairAttributions(const AttributedModel& first, const AttributedModel& second,
                                              const Plan& plan, const Resampling& resampling) {
  std::vector<AttributionPair> pairs;
  for (const Attribution& a : first.attributions) {
    if (std::ranges::contains(pairs, a.task, &AttributionPair::task)) continue;
    const auto b = std::ranges::find_if(second.attributions, [&](const Attribution& other) {
      return other.task == a.task && std::string_view(other.figure.name) == a.figure.name;
    });
    if (b != second.attributions.end()) pairs.push_back(PairFigure({first, a}, {second, *b}, plan, resampling));
  }
  std::vector<Comparison*> differences;
  for (AttributionPair& pair : pairs) {
    differences.push_back(&*pair.whole.difference);
    for (PartPair& part : pair.parts) {
      if (part.difference) differences.push_back(&*part.difference);
    }
  }
  AddHolm(differences);
  return pairs;
}

}  // namespace tare
