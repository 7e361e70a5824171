// SPDX-License-Identifier: Apache-2.0
// Parts shared by the commands that run the cells of a sweep in a folder (sweep, compare, attribute): options, files,
// progress, and splitting the cells over many machines.
#pragma once

#include <string>
#include <vector>

#include "experiments/significance/paired_runs.h"
#include "experiments/studies/sweep/sweep.h"
#include "tools/files.h"
#include "tools/run_options.h"

namespace tare {

struct CellsCommand {
  std::vector<std::string> models, statistics, folders;  // of folders: results of other runs, which are read too
  std::string tasks, json, cache;
  SweepOptions sweep;
  MachineOptions machine;
};

// --stats, --tasks, --cache, --out, --json, --seed, windows, --threads and --math.
void AddCellsOptions(CLI::App& command, CellsCommand& options);

// Parses the texts of the command line. `outputs` are files of the folder besides its cells.
std::vector<AtomicFile> ClaimCells(CellsCommand& options, const std::vector<std::string>& outputs);

// Runs the cells and shows progress in the line; `later`: runs of the command after them, and the tokens that
// these take through models.
std::vector<SweepCell> RunCells(const CellsCommand& options, ProgressLine& line, const Later& later = {});
// The same, with a line of their own.
std::vector<SweepCell> RunCells(const CellsCommand& options);

// --list, --cells and --merge.
struct CellNumbers {
  bool list = false;
  std::string only;
  std::vector<std::string> parts;

  void AddTo(CLI::App& command);
};
// Prints the cells with their numbers.
void PrintCells(CellsCommand& options);
// Call it before any cell runs: sets the options, and copies cells of other folders into this one.
void ApplyTo(CellsCommand& options, const CellNumbers& numbers);
void Merge(const CellsCommand& options, const CellNumbers& numbers);

}  // namespace tare
