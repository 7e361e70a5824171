// SPDX-License-Identifier: Apache-2.0
// Accuracy against bits: models x tasks x plans, one cell at a time. A finished cell is one JSON line in
// DIR/cells.jsonl; a sweep that is started again with the same folder reads them, runs the missing cells, and gives the
// same table. A cell is identified by everything that its figures depend on: hashes of weights, config, tokenizer and
// input, plan (and of the statistics file, where a rule is +static), windows, math.
//
// Cells are independent, so many machines may share a sweep: each runs some of the list's numbers into its own folder,
// and one sweep with the same options merges them all.
//
// Several sweeps may share a folder, one site each: cells that one has run are not run again (such as 16 bits of a
// model), and tables show all cells that can be compared.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/studies/sweep/sweep_plans.h"
#include "experiments/tasks/task.h"

namespace tare {

struct SweepOptions {
  std::vector<std::filesystem::path> models;
  std::vector<std::filesystem::path> statistics;  // for rules with +static: one file per model, in their order; or none
  SweepQuestion question;
  Carrying carrying = Carrying::kSimulated;
  std::vector<TaskSpec> tasks;
  WindowOptions windows;
  std::optional<CachePlan> cache;  // of every cell: what its plan's rules of caches are added to
  Math math = Math::kF32;
  std::filesystem::path folder;
  std::optional<std::pair<size_t, size_t>> only;  // cells of these numbers in ListCells' order, first to last
};

// All cells that the options ask for, in their order: "novels-standard f32 perplexity:heldout".
std::vector<std::string> ListCells(const SweepOptions& options);

struct SweepCell {
  std::string model, task;
  const TaskKind* kind = nullptr;
  PlanRow row;  // of the key's plan
  nlohmann::ordered_json key, result;
  Figures figures;  // of the result

  std::string Plan() const { return key.at("plan"); }
  bool Executed() const { return key.contains("executed"); }
};

// `starting` hears of each cell before it runs: its number among those that this run makes, from 0, how many these are,
// and what it is. Finished ones are not run, nor heard of.
using CellStarting = std::function<Progress(size_t cell, size_t cells, const std::string& what)>;

// The cells that were asked for, in their order: models, tasks, plans; then others of the folder whose settings (limit,
// windows, math, and of the same names the same weights and inputs) are the same. Those with other settings are
// ignored, and a notice lists them. Throws Error where the folder cannot be written or its cells are damaged.
std::vector<SweepCell> RunSweep(const SweepOptions& options, const CellStarting& starting);

// Finished cells of other folders into this one's, in the order of the list: then there is nothing left to run, and the
// folder has the bytes that one machine would have written. Throws Error, before anything is written, for a cell of
// another sweep or with other figures than its twin, and where cells are missing: with their numbers.
void MergeSweep(const SweepOptions& options, const std::vector<std::filesystem::path>& parts);

}  // namespace tare
