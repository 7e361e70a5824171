// SPDX-License-Identifier: Apache-2.0
// One plan's attributions in two models side by side: the cost of each part alone in each of them, and how much more it
// costs the second, paired by the items or windows that both saw:
//
//   difference = (F2(part) - F2(f32)) - (F1(part) - F1(f32))
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/studies/attribution/attribution.h"

namespace tare {

// Of one model.
struct AttributedModel {
  std::vector<SweepCell> cells;
  std::vector<Attribution> attributions;
};

struct PartPair {
  std::string part;
  std::optional<double> first, second;   // alone; nothing where the plan has no such part in the model
  std::optional<Comparison> difference;  // of parts that both have
};

struct AttributionPair {
  std::string task;
  FigureKeys figure;
  std::vector<PartPair> parts;  // by the larger of the two, largest first
  PartPair whole;               // of the whole plan; without a name
};

// A pair for each task that both have, of its first figure, by which it is known (of divergence the mean). p_holm is
// over all differences.
std::vector<AttributionPair> PairAttributions(const AttributedModel& first, const AttributedModel& second,
                                              const Plan& plan, const Resampling& resampling);

}  // namespace tare
