// SPDX-License-Identifier: Apache-2.0
// The material of a report, read from the results of other commands: statistics (.h5), dumps (.h5), and JSON of `tare
// stats`, `sweep` and `attribute` (or their folders), `eval`, `bench` and `inspect`. Each file names its own
// kind.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/studies/sweep/comparison.h"
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

// A file of `tare dump`, read when a figure is made of it.
struct ModelDump {
  std::filesystem::path path;
  std::string model, plan;
};

// One object of a JSON file, with its schema.
struct Document {
  std::string path, schema;
  nlohmann::ordered_json json;
};

struct Sweep {
  std::string path;
  std::vector<SweepCell> cells;
  Comparisons comparisons;

  // In the order of the cells; of what the sweep's tables show.
  std::vector<SweepFigure> Figures() const;
};

struct Material {
  std::vector<SourceFile> files;
  std::vector<ModelStatistics> statistics;
  std::vector<ModelDump> dumps;
  std::vector<Document> documents;
  std::vector<Sweep> sweeps;

  // Each document of the schema. What it lacks, or has of another type, throws Error with its file.
  void ForEach(std::string_view schema, const std::function<void(const nlohmann::ordered_json&)>& use) const;
};

// Throws Error for a file of another schema, a part of a job, a sweep without a finished cell, two files of one model's
// name and other weights, and the same twice.
Material ReadMaterial(const std::vector<std::filesystem::path>& files);

}  // namespace tare
