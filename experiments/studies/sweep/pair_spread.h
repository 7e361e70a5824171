// SPDX-License-Identifier: Apache-2.0
// One pair of models is one sample of training. Of several pairs, the same two recipes trained from other seeds, each
// compared by itself (tare compare), the spread of the differences of drops: d_i of pair i,
//
//   mean m = sum d_i / n,   deviation s = sqrt(sum (d_i - m)^2 / (n - 1)),   95 % of the mean: m -/+ t s / sqrt(n)
//
// with t of Student's law, n - 1 degrees of freedom. The error of a pair from its items or windows is in s
// already.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/significance/accuracy.h"
#include "experiments/table/table.h"
#include "experiments/tasks/task.h"

namespace tare {

// tare.sweep/3 of two models, as compare.json has it, and where it is from.
struct ComparedPair {
  std::string where;
  nlohmann::ordered_json sweep;
};
// From compare.json of the folder. Throws Error where there is none, or none of two models.
ComparedPair ReadComparedPair(const std::filesystem::path& folder);

struct PairSpread {
  std::string task, plan;  // "attn_logits=int4/row", "int8 executed"
  FigureKeys figure;
  std::vector<double> differences;  // in the order of the pairs
  double mean = 0, deviation = 0;
  Interval interval;
};

// Of two pairs or more, for every difference of the first that tables show. Throws Error, naming the pair, for one of
// other tasks, windows or plans, with models in the other order, and for one that comes twice.
std::vector<PairSpread> SpreadOverPairs(const std::vector<ComparedPair>& pairs);

// For people, within 80 columns.
std::string PairSpreadTable(const std::vector<PairSpread>& spreads);
// For programs: task, plan, figure, pairs, mean, deviation, low, high, and the differences as an array.
Table PairSpreads(const std::vector<PairSpread>& spreads);

}  // namespace tare
