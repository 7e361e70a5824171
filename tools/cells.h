// SPDX-License-Identifier: Apache-2.0
// Parts shared by the commands that run the cells of a sweep in a folder (sweep, compare, attribute): options, files,
// progress, and splitting the cells over many machines.
#pragma once

#include <string>
#include <vector>

#include "experiments/significance/mean_error.h"
#include "experiments/studies/sweep/sweep.h"
#include "tools/files.h"
#include "tools/run_options.h"

namespace tare {

struct CellsCommand {
  std::string tasks, json;
  SweepOptions sweep;
  std::vector<std::filesystem::path> folders = {};  // results of other runs, which are read too
  MachineOptions machine;
};

// --stats, --tasks, --cache, --out, --json, --seed, windows, --threads and --math.
void AddCellsOptions(CLI::App& command, CellsCommand& options);

// `outputs` are files of the folder besides its cells.
std::vector<AtomicFile> ClaimCells(const CellsCommand& options, const std::vector<std::string>& outputs);

// Runs the cells and shows progress in the line; `runs_later`: runs of the command after them.
std::vector<SweepCell> RunCells(const SweepOptions& options, ProgressLine& line, int64_t runs_later = 0);
// The same, with a line of their own.
std::vector<SweepCell> RunCells(const SweepOptions& options);

// --list, --cells and --merge.
struct CellNumbers {
  bool list = false;
  std::string only;
  std::vector<std::filesystem::path> parts;

  void AddTo(CLI::App& command);
};
// Prints the cells with their numbers.
void PrintCells(const SweepOptions& options);
// Call it before any cell runs: sets the options; and copies cells of other folders into this one.
void ApplyTo(CellsCommand& options, const CellNumbers& numbers);
void Merge(const CellsCommand& options);

}  // namespace tare
