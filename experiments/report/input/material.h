// SPDX-License-Identifier: Apache-2.0
// The material of a report, read from the results of other commands: statistics (.h5), dumps (.h5), and JSON of `tare
// stats`, `sweep`, `compare`, `attribute` and `search` (or their folders), `judge`, `eval`, `maps`, `bench` and
// `inspect`. Each file names its own kind.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "quant/file/json.h"

#include "experiments/studies/sweep/comparison.h"
#include "experiments/studies/sweep/spreads.h"
#include "quant/observe/statistics_set.h"

namespace tare {

struct SourceFile {
  std::string path, schema;
  std::vector<std::pair<std::string, std::string>>
      says;  // "model", "novels-standard"; what was run, as the file has it
};

struct ModelStatistics {
  std::string model;
  StatisticsSet set;
};

// A file of `tare dump`, read when a figure needs it.
struct ModelDump {
  std::filesystem::path path;
  std::string model, plan;
};

// One object of a JSON file, with its schema.
struct Document {
  std::string path, schema;
  Json json;
};

struct Sweep {
  std::string path;
  std::vector<SweepCell> cells;
  Comparisons comparisons;
  std::vector<CutModels> cuts;  // of the calibration text

  // The figures that the sweep's tables show, in the order of the cells.
  std::vector<SweepFigure> Figures() const;
};

struct Material {
  std::vector<SourceFile> files;
  std::vector<ModelStatistics> statistics;
  std::vector<ModelDump> dumps;
  std::vector<Document> documents;
  std::vector<Sweep> sweeps;

  // Calls use for each document with the schema. Throws Error, with the file, if a key is missing or of another type.
  void ForEach(std::string_view schema, const std::function<void(const Json&)>& use) const;
};

// Throws Error for an unknown schema, a part of a job, a sweep without a finished cell, two files with one model name
// but different weights, and a file given twice.
Material ReadMaterial(const std::vector<std::filesystem::path>& files);

}  // namespace tare
