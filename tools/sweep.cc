// SPDX-License-Identifier: Apache-2.0
// tare sweep: accuracy against bits, models side by side; resumes.
#include "tools/sweep.h"

#include <charconv>
#include <memory>

#include "experiments/sweep/table.h"
#include "experiments/sweep/table_files.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/atomic_file.h"
#include "quant/file/folder_lock.h"
#include "quant/file/json.h"
#include "quant/file/json_text.h"
#include "quant/plan/grid_files.h"

namespace tare {

std::vector<AtomicFile> ClaimSweep(SweepCommand& options, const std::vector<std::string>& outputs) {
  options.sweep.models.assign(options.models.begin(), options.models.end());
  options.sweep.statistics.assign(options.statistics.begin(), options.statistics.end());
  std::vector<std::string> inputs = options.models, names{"cells.jsonl", "table.csv", "table.txt", "table.json"};
  inputs.insert(inputs.end(), options.statistics.begin(), options.statistics.end());
  for (const TaskSpec& task : options.sweep.tasks) inputs.push_back(task.file);
  names.insert(names.end(), outputs.begin(), outputs.end());
  std::vector<std::string> files = OutputsIn(options.sweep.folder, names);
  files.push_back(options.json);
  return ClaimFiles(inputs, files);
}

SweepResult RunAndWrite(const SweepCommand& options) {
  std::vector<SweepCell> cells;
  {
    ProgressLine line("");
    cells = RunSweep(options.sweep, [&](size_t cell, size_t count, const std::string& what) {
      line.Begin(Formatted("{}/{} {}", cell + 1, count, what), cell, count);
      return line.Callback();
    });
  }
  const Comparisons comparisons = CompareCells(cells, options.resampling);
  SweepResult result{.json = SweepJson(cells, comparisons, options.resampling),
                     .table = SweepTable(cells, comparisons),
                     .legend = SweepLegend(comparisons)};
  const std::filesystem::path& folder = options.sweep.folder;
  WriteFileAtomically(folder / "table.csv", SweepCsv(cells, comparisons));
  WriteFileAtomically(folder / "table.txt", result.table);
  WriteFileAtomically(folder / "table.json", JsonText(result.json, 2) + "\n");
  return result;
}

namespace {

struct Options : SweepCommand {
  bool list = false;
  std::string only;
  std::vector<std::string> parts;
};

// "3" or "3-5".
std::pair<size_t, size_t> ParseCells(const std::string& text) {
  const std::string first = text.substr(0, text.find('-')), last = text.substr(text.find('-') + 1);
  const auto number = [&](const std::string& digits) {
    size_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || digits.empty())
      Fail("--cells: got '{}', expected a number or two like 3-5; see --list", text);
    return value;
  };
  const std::pair<size_t, size_t> range{number(first), number(last)};
  if (range.second < range.first) Fail("--cells: got {}, expected the smaller number first", text);
  return range;
}

void List(const Options& options) {
  SweepOptions sweep = options.sweep;
  sweep.models.assign(options.models.begin(), options.models.end());
  const std::vector<std::string> cells = ListCells(sweep);
  for (size_t i = 0; i < cells.size(); ++i) PrintLine("{} {}", i, cells[i]);
}

void Run(Options& options) {
  options.sweep.tasks = ParseTasks(options.tasks);
  if (options.list) return List(options);
  if (!options.only.empty()) options.sweep.only = ParseCells(options.only);
  OutputsIn(options.sweep.folder, {});
  const OutputFolder folder(options.sweep.folder);  // before its files: who has it is refused none of them
  const std::vector<AtomicFile> claims = ClaimSweep(options, {});
  options.sweep.math = options.machine.Apply();
  if (!options.parts.empty()) MergeSweep(options.sweep, {options.parts.begin(), options.parts.end()});
  const SweepResult result = RunAndWrite(options);
  if (PrintsTables(options.json)) {
    PrintText("{}", result.table);
    PrintLine("\n{}finished cells, table.csv, table.json and table.txt are in {}", result.legend,
              options.sweep.folder.string());
  }
  WriteJson(options.json, result.json);
}

}  // namespace

void AddSweepOptions(CLI::App& command, SweepCommand& options) {
  SweepOptions& sweep = options.sweep;
  SweepQuestion& question = sweep.question;
  command
      .add_option("--site", question.site,
                  "what to quantize; several with commas between are quantized together, in one plan")
      ->capture_default_str();
  command.add_flag_callback(
      "--each-site", [&question] { question.sites = SweepSites::kEach; },
      "each of the sites alone, one after the other; a group (weights, linear_in) is each of its sites");
  command.add_option("--base", question.base, "a plan of rules that every quantized cell has besides")
      ->transform(WithGridFiles);
  AddExecutedFlag(command, sweep.carrying);
  command
      .add_option("--stats", options.statistics,
                  "statistics file (tare stats --out) for rules with +static; once per model, in their order")
      ->allow_extra_args(false);
  command.add_option("--bits", question.bits, "16 (not quantized), 8, 6, 4, with commas between")
      ->delimiter(',')
      ->allow_extra_args(false)  // or it takes the folders after it
      ->capture_default_str();
  command
      .add_option("--formats", question.formats,
                  "instead of --bits, formats by their names, with commas between: f32,int4,mxfp4,nvfp4")
      ->transform(WithGridFiles)
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option("--granularity", question.granularities,
                  "what shares a scale: row, head, tensor, with commas between; with options: tensor+static. Where "
                  "several sites are named, one that has none such takes the nearest that it has, and says so")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command
      .add_option("--plan", question.plans,
                  "instead of sites, bits and granularities, a whole plan (f32: none); once per plan")
      ->transform(WithGridFiles)
      ->allow_extra_args(false)
      ->excludes("--site", "--each-site", "--base", "--bits", "--formats", "--granularity");
  command.add_option("--tasks", options.tasks, TaskUsage(", ") + ", with commas between")->required();
  command.add_option("--out", sweep.folder, "folder of results")->required();
  command.add_option("--json", options.json, "write JSON to a file, or - for standard output");
  command.add_option("--seed", options.resampling.seed, "of the draws that intervals are from")->capture_default_str();
  AddWindowOptions(command, sweep.windows);
  AddStrideOption(command, sweep.windows);
  options.machine.AddTo(command);
}

void AddSweep(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "sweep", "accuracy against bits: models x granularity x bits x tasks; run again, it does what is left");
  command->add_option("MODEL", options->models, "checkpoint folders")->required();
  AddSweepOptions(*command, *options);
  command->add_flag("--list", options->list, "only the cells with their numbers, and nothing is run");
  CLI::Option* const only =
      command->add_option("--cells", options->only,
                          "only cell k, or cells a-b, of that list: a part of the sweep, each into its own --out");
  command
      ->add_option("--merge", options->parts,
                   "take over the finished cells of such a folder; once per folder. What is missing is said, not run")
      ->allow_extra_args(false)
      ->excludes(only);
  command->footer(
      "Example:\n  tare sweep experiments/pair/novels-standard experiments/pair/novels-differential --granularity row "
      "\\\n"
      "    --tasks perplexity=experiments/pair/heldout.txt,choice=experiments/pair/needles-4.jsonl --limit 40 --out "
      "sweep");
  command->callback([options] { Run(*options); });
}

}  // namespace tare
