// SPDX-License-Identifier: Apache-2.0
// What another calibration text changes: versions of a model that were made by the same method and plan from several
// cuts of one text (tare quantize --cut i/n), taken together. The cuts are samples (significance/mean_error.h): the
// interval says how far another calibration text moves the mean of a figure, and nothing of another scored text.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/significance/mean_error.h"
#include "experiments/studies/sweep/comparison.h"
#include "experiments/table/table.h"

namespace tare {

// Names of models, in the order of their cuts; at least two.
using CutModels = std::vector<std::string>;

// Those of the models that differ in the cut alone. Reads where each is from.
std::vector<CutModels> ModelsByCuts(const std::vector<std::filesystem::path>& models);

struct CutSpread {
  CutModels models;
  std::string task, plan;  // "f32": as stored
  FigureKeys figure;
  std::vector<double> values, changes;  // by cut; changes from 16 bits: empty where a cut has none
  SampleMean value;
  std::optional<SampleMean> change;
};

// Of every figure that tables show, where all models of a group have it.
std::vector<CutSpread> SpreadOverCuts(const std::vector<SweepCell>& cells, const Comparisons& comparisons,
                                      const std::vector<CutModels>& groups);

// For people, within 80 columns; "" for none.
std::string CutSpreadTable(const std::vector<CutSpread>& spreads);
// For programs: models, task, plan, figure, cuts, and of the value and the change mean, deviation, low, high and all.
Table CutSpreads(const std::vector<CutSpread>& spreads);

}  // namespace tare
