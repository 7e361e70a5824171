// SPDX-License-Identifier: Apache-2.0
// Shared by commands that run cells of a sweep (sweep, compare, attribute, search), and what sweep.cc does for compare.
#pragma once

#include "experiments/significance/mean_error.h"
#include "experiments/studies/attribution/attribution.h"
#include "experiments/studies/sweep/sweep.h"
#include "quant/file/output_folder.h"
#include "tools/run_options.h"

namespace tare {

struct CellsCommand {
  std::string tasks, json;
  SweepOptions sweep;
  std::vector<std::filesystem::path> folders = {};  // results of other runs, which are read too
  MachineOptions machine;
  bool fresh = false;      // without what an earlier run finished
  bool list = false;       // only the cells with their numbers
  std::string cells = {};  // their numbers, "3" or "3-5"; empty: all
};

// --stats and --cache, of the command's group, and what to measure, windows, --out and --json.
void AddCellsOptions(CLI::App& command, CellsCommand& options);
void AddSharedOptions(CLI::App& command, CellsCommand& options);  // the groups that come last

// Held before its files, so that none is refused: the cells, a study's (WriteStudy) and others. schema: of --json,
// "tare.sweep/".
struct ClaimedFolder {
  std::unique_ptr<const OutputFolder> folder;
  std::vector<AtomicFile> files;
};
ClaimedFolder ClaimCells(const CellsCommand& options, const std::string& study, const std::string& schema,
                         const std::vector<std::string>& others = {});

// The folder, with " (replaced)" if it had this table before.
std::string MadeIn(const std::filesystem::path& folder, const std::string& table);

// A finished study: STUDY.json, STUDY.csv and STUDY.txt of its folder, and what a reader of the table has to know.
struct StudyResult {
  Json json;
  std::string csv, table, legend;
};
void WriteStudy(const std::filesystem::path& folder, const std::string& study, const StudyResult& result);
// On standard output and to --json, with the names of the files.
void ShowStudy(const CellsCommand& options, const std::string& study, const StudyResult& result);

// Runs the cells and shows progress in the line; `runs_later`: runs of the command after them.
std::vector<SweepCell> RunCells(const SweepOptions& options, ProgressLine& line, int64_t runs_later = 0);
std::vector<SweepCell> RunCells(const SweepOptions& options);

void AddCellNumbers(CLI::App& command, CellsCommand& options);  // --list, --cells and --merge
void PrintCells(const SweepOptions& options);
// Call them before any cell runs: limits the sweep to --cells; and copies cells of other folders into this one.
void Select(CellsCommand& options);
void Merge(const CellsCommand& options);

// `tare sweep` and `tare compare`: their options but the last ones, and running a sweep and writing it, as "table".
void AddSweepOptions(CLI::App& command, CellsCommand& options);
StudyResult RunAndWrite(const SweepOptions& options, ProgressLine& line, int64_t runs_later = 0);

// What attribute, and compare per model, write of an attribution beside the cells, as "attribution".
ClaimedFolder ClaimAttribution(const CellsCommand& options);

struct AttributionResult : StudyResult {  // tare.attribution/1
  AttributedModel model;
};
// From the cells of RunCells.
AttributionResult WriteAttribution(const SweepOptions& options, const AttributionQuestion& question,
                                   std::vector<SweepCell> cells);

}  // namespace tare
