// SPDX-License-Identifier: Apache-2.0
// What another calibration text changes: versions of a model that were made by the same method and plan from several
// cuts of one text (tare quantize --cut i/n), taken together. The cuts are samples (significance/mean_error.h): the
// interval says how far another calibration text moves the mean of a figure, and nothing of another scored text. Groups
// of the same cuts by other methods are compared cut by cut: the mean d of the differences, with s their deviation, has
// the interval of samples and p of t = d / (s / sqrt(n)), Student's with n - 1 degrees of freedom.
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
#include "quant/file/json.h"

namespace tare {

// Models that differ only in the cut.
struct CutModels {
  std::vector<std::string> names;  // in the order of their cuts; at least two
  std::string alike;               // plan, source, text and cuts: groups that share these may differ in the method

  bool operator==(const CutModels&) const = default;
};

// All such groups. Reads each model's origin.
std::vector<CutModels> ModelsByCuts(const std::vector<std::filesystem::path>& models);

struct CutSpread {
  CutModels models;
  std::string task, plan;  // "f32": as stored
  FigureKeys figure;
  bool primary = true;                  // of its task
  std::vector<double> values, changes;  // by cut; changes from unquantized: empty where a cut has none
  SampleMean value;
  std::optional<SampleMean> change;

  std::string Name() const;  // "gptq-0.h5 .. gptq-4.h5", and the plan unless they run as stored
};

// The spread of every figure that tables show, if all models of a group have it.
std::vector<CutSpread> SpreadOverCuts(const std::vector<SweepCell>& cells, const Comparisons& comparisons,
                                      const std::vector<CutModels>& groups);

// For people, within 80 columns; "" for none.
std::string CutSpreadTable(const std::vector<CutSpread>& spreads);
// For programs: models, alike, task, plan, figure, cuts, and of the value and the change mean, deviation, low, high and
// all.
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
  std::vector<double> differences;  // in the order of the pairs, or of the cuts
  SampleMean of_pairs = {};
  std::optional<double> p = {}, p_holm = {};  // between methods, of primary figures

  bool Significant() const { return p_holm && *p_holm < kLevel; }
};

// Needs two pairs or more; takes every difference of the first that tables show. Throws Error, naming the pair, for
// other tasks, windows or plans, for models in the other order, and for a pair given twice.
std::vector<PairSpread> SpreadOverPairs(const std::vector<ComparedPair>& pairs);

// How much higher a figure is by one method than by another on the same cuts: every two methods once, the later minus
// the earlier, in the place of the plan "b-0.h5 .. b-4.h5 minus a-0.h5 .. a-4.h5".
std::vector<PairSpread> DifferencesOverCuts(const std::vector<CutSpread>& spreads);

// For people, within 80 columns.
std::string PairSpreadTable(const std::vector<PairSpread>& spreads);
std::string CutDifferenceTable(const std::vector<PairSpread>& differences);
// For programs: task, plan, figure, pairs, mean, deviation, low, high, and the differences as an array; between methods
// also p and p_holm.
Table PairSpreads(const std::vector<PairSpread>& spreads);

}  // namespace tare
