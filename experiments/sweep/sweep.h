// SPDX-License-Identifier: Apache-2.0
// Accuracy against bits: models x granularity x bits x tasks, one cell at a time. A finished cell is one JSON line in
// DIR/cells.jsonl; a sweep that is started again with the same folder reads them, runs what is missing, and ends with
// the same table. A cell is known by everything that its figures depend on: hashes of weights, config, tokenizer and
// input, plan (and of the statistics file, where a rule is +static), windows, math.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/tasks/task.h"

namespace tare {

struct SweepOptions {
  std::vector<std::filesystem::path> models;
  std::vector<std::filesystem::path> statistics;  // for rules with +static: one file per model, in their order; or none
  std::string site = "attn_logits";               // or several, with commas between
  std::string base;                               // rules that every quantized cell has besides
  Carrying carrying = Carrying::kSimulated;
  std::vector<int> bits{16, 8, 6, 4};  // 16: not quantized
  std::vector<std::string> granularities{"row"};
  std::vector<TaskSpec> tasks;
  WindowOptions windows;
  Math math = Math::kF32;
  std::filesystem::path folder;
};

struct SweepCell {
  std::string model, granularity, task;
  int bits = 16;
  nlohmann::ordered_json key, result;
  Figures figures;  // of the result
};

// "attn_logits=int6/row" after the base's rules, a rule a site; "f32" for 16 bits. Throws Error for other numbers of
// bits than 16, 8, 6 and 4.
std::string PlanFor(const SweepOptions& options, int bits, const std::string& granularity);

// `starting` hears of each cell before it runs, with its number from 1, how many there are, and what it is.
using CellStarting = std::function<Progress(size_t cell, size_t cells, const std::string& what)>;

// All cells in order: models, tasks, granularities, bits. Throws Error where the folder cannot be written or its cells
// are damaged.
std::vector<SweepCell> RunSweep(const SweepOptions& options, const CellStarting& starting);

}  // namespace tare
