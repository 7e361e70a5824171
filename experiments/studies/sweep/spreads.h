// SPDX-License-Identifier: Apache-2.0
// What another calibration text changes: versions of a model that were made by the same method and plan from several
// cuts of one text (tare quantize --cut i/n), taken together. The cuts are samples (significance/mean_error.h): the
// interval says how far another calibration text moves the mean of a figure, and nothing of another scored text.
//
// And what another training changes: the spread of the differences of drops over several pairs, the same two recipes
// trained from other seeds, each pair compared by itself (tare compare). One pair of models is only one sample of
// training; the deviation contains each pair's error from its items or windows.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/significance/mean_error.h"
#include "experiments/studies/sweep/comparison.h"
#include "experiments/table/table.h"
#include "experiments/tasks/task.h"
#include "quant/file/json_value.h"

namespace tare {

// Names of models, in the order of their cuts; at least two.
using CutModels = std::vector<std::string>;

// The groups of models that differ only in the cut. Reads each model's origin.
std::vector<CutModels> ModelsByCuts(const std::vector<std::filesystem::path>& models);

struct CutSpread {
  CutModels models;
  std::string task, plan;  // "f32": as stored
  FigureKeys figure;
  std::vector<double> values, changes;  // by cut; changes from unquantized: empty where a cut has none
  SampleMean value;
  std::optional<SampleMean> change;
};

// The spread of every figure that tables show, if all models of a group have it.
std::vector<CutSpread> SpreadOverCuts(const std::vector<SweepCell>& cells, const Comparisons& comparisons,
                                      const std::vector<CutModels>& groups);

// For people, within 80 columns; "" for none.
std::string CutSpreadTable(const std::vector<CutSpread>& spreads);
// For programs: models, task, plan, figure, cuts, and of the value and the change mean, deviation, low, high and all.
Table CutSpreads(const std::vector<CutSpread>& spreads);

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
