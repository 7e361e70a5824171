// SPDX-License-Identifier: Apache-2.0
// The spread of the differences of drops over several pairs: the same two recipes trained from other seeds, each pair
// compared by itself (tare compare). One pair of models is only one sample of training (significance/mean_error.h);
// the deviation contains each pair's error from its items or windows.
#pragma once

#include <string>
#include <vector>
#include "quant/file/json_value.h"

#include "experiments/significance/mean_error.h"
#include "experiments/table/table.h"
#include "experiments/tasks/task.h"

namespace tare {

// A tare.sweep/3 of two models, as in compare.json, and where it is from.
struct ComparedPair {
  std::string where;
  Json sweep;
};
// Reads the folder's compare.json. Throws Error if it is missing or does not compare two models.
ComparedPair ReadComparedPair(const std::filesystem::path& folder);

struct PairSpread {
  std::string task, plan;  // "attn_logits=int4/row", "int8 executed"
  FigureKeys figure;
  std::vector<double> differences;  // in the order of the pairs
  SampleMean of_pairs = {};
};

// Needs two pairs or more; takes every difference of the first that tables show. Throws Error, naming the pair, for
// other tasks, windows or plans, for models in the other order, and for a pair given twice.
std::vector<PairSpread> SpreadOverPairs(const std::vector<ComparedPair>& pairs);

// For people, within 80 columns.
std::string PairSpreadTable(const std::vector<PairSpread>& spreads);
// For programs: task, plan, figure, pairs, mean, deviation, low, high, and the differences as an array.
Table PairSpreads(const std::vector<PairSpread>& spreads);

}  // namespace tare
