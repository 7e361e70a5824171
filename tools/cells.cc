// SPDX-License-Identifier: Apache-2.0
#include "tools/cells.h"

#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

// "3" or "3-5".
std::pair<size_t, size_t> ParseCells(const std::string& text) {
  const std::string first = text.substr(0, text.find('-')), last = text.substr(text.find('-') + 1);
  const auto from = ParseNumber<size_t>(first), to = ParseNumber<size_t>(last);
  if (!from || !to) FailUsage("--cells: got '{}', expected a number or two like 3-5; see --list", text);
  if (*to < *from) FailUsage("--cells: got {}, expected the smaller number first", text);
  return {*from, *to};
}

}  // namespace

void AddCellsOptions(CLI::App& command, CellsCommand& options) {
  SweepOptions& sweep = options.sweep;
  command
      .add_option("--stats", sweep.statistics,
                  "statistics file (tare stats --out) for rules with +static; one per MODEL, in the same order")
      ->allow_extra_args(false);
  command.add_option("--tasks", options.tasks, TaskUsage(", ") + ", separated by commas")->required();
  AddCacheOption(command, sweep.cache,
                 "decode every cell with KV caches of these formats and this policy, for example "
                 "first=4,keep=h2o/256; rules for cache_k and cache_v in a plan take precedence");
  command.add_option("--out", sweep.folder, "folder for the results")->required();
  command.add_option("--json", options.json, "write JSON to a file, or - for standard output");
  AddWindowOptions(command, sweep.windows);
  AddStrideOption(command, sweep.windows);
  AddShortContextOption(command, sweep.windows);
  AddConventionOption(command, sweep.windows);
  AddAnswerOptions(command, sweep.answers);
  options.machine.AddTo(command);
  AddHashAgain(command);
  AddQuiet(command);
}

std::vector<AtomicFile> ClaimCells(const CellsCommand& options, const std::vector<std::string>& outputs) {
  const SweepOptions& sweep = options.sweep;
  std::vector<std::string> inputs(sweep.models.begin(), sweep.models.end()), names{"cells.jsonl"};
  inputs.insert(inputs.end(), sweep.statistics.begin(), sweep.statistics.end());
  inputs.insert(inputs.end(), options.folders.begin(), options.folders.end());
  for (const TaskSpec& task : sweep.tasks) inputs.push_back(task.file);
  names.insert(names.end(), outputs.begin(), outputs.end());
  std::vector<std::string> files = OutputsIn(sweep.folder, names);
  files.push_back(options.json);
  return ClaimFiles(inputs, files);
}

// An interrupted sweep keeps what it finished.
std::vector<SweepCell> RunCells(const SweepOptions& options, ProgressLine& line, int64_t runs_later) try {
  return RunSweep(options, [&](const std::string& what, int64_t runs_after) {
    line.Begin(what, runs_after + runs_later);
    return line.Callback();
  });
} catch (const Interrupted& error) {
  Fail("{}; {} keeps the finished cells, and the same command continues", error.what(), options.folder.string());
}

std::vector<SweepCell> RunCells(const SweepOptions& options) {
  ProgressLine line("");
  return RunCells(options, line);
}

void CellNumbers::AddTo(CLI::App& command) {
  command.add_flag("--list", list, "list the cells with their numbers; run nothing");
  CLI::Option* const numbers =
      command.add_option("--cells", only, "run only cell k, or cells a-b, of that list; each part needs its own --out");
  command
      .add_option(
          "--merge", parts,
          "take the finished cells from the --out folder of a part; repeatable. Missing cells are listed, not run")
      ->allow_extra_args(false)
      ->excludes(numbers);
}

void PrintCells(const SweepOptions& options) {
  const std::vector<std::string> cells = ListCells(options);
  for (size_t i = 0; i < cells.size(); ++i) PrintLine("{} {}", i, cells[i]);
}

void ApplyTo(CellsCommand& options, const CellNumbers& numbers) {
  if (!numbers.only.empty()) options.sweep.only = ParseCells(numbers.only);
  options.folders = numbers.parts;
}

void Merge(const CellsCommand& options) {
  if (!options.folders.empty()) MergeSweep(options.sweep, options.folders);
}

}  // namespace tare
