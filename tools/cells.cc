// SPDX-License-Identifier: Apache-2.0
#include "tools/cells.h"

#include <algorithm>

namespace tare {

void AddCellsOptions(CLI::App& command, CellsCommand& options) {
  SweepOptions& sweep = options.sweep;
  Add(command, "--stats FILE", sweep.statistics, "for rules with +static, one for each MODEL; repeatable")
      ->allow_extra_args(false);
  AddCacheOption(command, sweep.cache);
  Group(command, "What to measure");
  AddTasksOption(command, options.tasks);
  AddWindowOptions(command, sweep.windows);
  AddStrideOption(command, sweep.windows);
  Group(command, "Output");
  Add(command, "--out DIR", sweep.folder, "folder of the results; the same command continues in it")->required();
  AddFresh(command, options.fresh, "OUT");
  AddJson(command, options.json);
}

void AddSharedOptions(CLI::App& command, CellsCommand& options) {
  AddOptionsOfTasks(command, options.sweep.windows, options.sweep.answers);
  options.machine.AddTo(command, AddHashAgain);
}

ClaimedFolder ClaimCells(const CellsCommand& options, const std::string& study, const std::string& schema,
                         const std::vector<std::string>& others) {
  const SweepOptions& sweep = options.sweep;
  std::vector<std::string> inputs(sweep.models.begin(), sweep.models.end()),
      names{"cells.jsonl", study + ".csv", study + ".txt", study + ".json"};
  inputs.insert(inputs.end(), sweep.statistics.begin(), sweep.statistics.end());
  inputs.insert(inputs.end(), options.folders.begin(), options.folders.end());
  for (const TaskSpec& task : sweep.tasks) inputs.push_back(task.file);
  OutputsIn(inputs, sweep.folder, {});
  auto folder = std::make_unique<const OutputFolder>(sweep.folder);
  names.insert(names.end(), others.begin(), others.end());
  std::vector<Output> files = OutputsIn({}, sweep.folder, names);
  // A folder with runs or results in JSON is one that Tare wrote; what reads the runs refuses others.
  const bool ours = std::ranges::any_of(files, [](const Output& file) {
    return Begins(file.path, JsonWith("tare.")) || Begins(file.path, "\"schema\":\"tare.");
  });
  for (Output& file : files) file.beginning = ours || file.path.ends_with(".jsonl") ? "" : JsonWith("tare.");
  files.push_back({options.json, JsonWith(schema)});
  std::vector<AtomicFile> claims = ClaimFiles({}, files);
  for (const std::string& name : names) {
    if (options.fresh) RemoveFile(sweep.folder / name);
  }
  return {std::move(folder), std::move(claims)};
}

std::string MadeIn(const std::filesystem::path& folder, const std::string& table) {
  const std::string path = folder / table;
  return folder.string() + Made(path).substr(path.size());
}

void WriteStudy(const std::filesystem::path& folder, const std::string& study, const StudyResult& result) {
  WriteFileAtomically(folder / (study + ".csv"), result.csv);
  WriteFileAtomically(folder / (study + ".txt"), result.table);
  WriteFileAtomically(folder / (study + ".json"), JsonText(WithCommand(result.json), 2) + "\n");
}

void ShowStudy(const CellsCommand& options, const std::string& study, const StudyResult& result) {
  if (PrintsTables(options.json)) {
    PrintText("{}", result.table);
    PrintLine("\n{0}finished runs, {1}.csv, {1}.json and {1}.txt are in\n{2}", result.legend, study,
              MadeIn(options.sweep.folder, study + ".txt"));
  }
  WriteJson(options.json, result.json);
}

std::vector<SweepCell> RunCells(const SweepOptions& options, ProgressLine& line, int64_t runs_later) {
  return RunSweep(options, [&](const std::string& what, int64_t runs_after) {
    line.Begin(what, runs_after + runs_later);
    return line.Callback();
  });
}

std::vector<SweepCell> RunCells(const SweepOptions& options) {
  ProgressLine line("");
  return RunCells(options, line);
}

void AddCellNumbers(CLI::App& command, CellsCommand& options) {
  Group(command, "Splitting over machines");
  command.add_flag("--list", options.list, "list the runs with their numbers; run nothing");
  CLI::Option* const numbers =
      Add(command, "--cells A-B", options.cells, "only these runs of the list, or one; each part has its own --out");
  Add(command, "--merge DIR", options.folders,
      "finished runs of a part, its --out; repeatable. Missing runs are listed, not run")
      ->allow_extra_args(false)
      ->excludes(numbers);
}

void PrintCells(const SweepOptions& options) {
  const std::vector<std::string> cells = ListCells(options);
  for (size_t i = 0; i < cells.size(); ++i) PrintLine("{} {}", i, cells[i]);
}

void Select(CellsCommand& options) {
  const std::string& text = options.cells;  // "3" or "3-5"
  if (text.empty()) return;
  const auto from = ParseNumber<size_t>(text.substr(0, text.find('-'))),
             to = ParseNumber<size_t>(text.substr(text.find('-') + 1));
  if (!from || !to) FailUsage("--cells: got '{}', expected a number or two like 3-5; see --list", text);
  if (*to < *from) FailUsage("--cells: got {}, expected the smaller number first", text);
  options.sweep.only = {*from, *to};
}

void Merge(const CellsCommand& options) {
  if (!options.folders.empty()) MergeSweep(options.sweep, options.folders);
}

}  // namespace tare
