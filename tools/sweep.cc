// SPDX-License-Identifier: Apache-2.0
// tare sweep: accuracy against bits, models side by side; resumes.
#include <memory>

#include "experiments/sweep/sweep.h"
#include "experiments/sweep/table.h"
#include "experiments/sweep/table_files.h"
#include "quant/base/formatted.h"
#include "quant/file/atomic_file.h"
#include "quant/file/folder_lock.h"
#include "quant/file/json.h"
#include "quant/file/json_text.h"
#include "tools/files.h"
#include "tools/run_options.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> models, statistics;
  std::string tasks, json;
  SweepOptions sweep;
  Resampling resampling;
  MachineOptions machine;
};

std::vector<AtomicFile> ClaimSweep(const Options& options) {
  std::vector<std::string> inputs = options.models, outputs{options.json};
  inputs.insert(inputs.end(), options.statistics.begin(), options.statistics.end());
  for (const TaskSpec& task : options.sweep.tasks) inputs.push_back(task.file);
  for (const std::string& output :
       OutputsIn(options.sweep.folder, {"cells.jsonl", "table.csv", "table.txt", "table.json"}))
    outputs.push_back(output);
  return ClaimFiles(inputs, outputs);
}

void Run(Options& options) {
  options.sweep.models.assign(options.models.begin(), options.models.end());
  options.sweep.statistics.assign(options.statistics.begin(), options.statistics.end());
  options.sweep.tasks = ParseTasks(options.tasks);
  OutputsIn(options.sweep.folder, {});
  const OutputFolder folder(options.sweep.folder);  // before its files: who has it is refused none of them
  const std::vector<AtomicFile> claims = ClaimSweep(options);
  options.sweep.math = options.machine.Apply();
  std::vector<SweepCell> cells;
  {
    ProgressLine line("");
    cells = RunSweep(options.sweep, [&](size_t cell, size_t count, const std::string& what) {
      line.Begin(Formatted("{}/{} {}", cell + 1, count, what), cell, count);
      return line.Callback();
    });
  }
  const Comparisons comparisons = CompareCells(cells, options.resampling);
  const Json json = SweepJson(cells, comparisons, options.resampling);
  const std::string table = SweepTable(cells, comparisons);
  WriteFileAtomically(options.sweep.folder / "table.csv", SweepCsv(cells, comparisons));
  WriteFileAtomically(options.sweep.folder / "table.txt", table);
  WriteFileAtomically(options.sweep.folder / "table.json", JsonText(json, 2) + "\n");
  if (PrintsTables(options.json)) {
    PrintText("{}", table);
    PrintLine("\n{}finished cells, table.csv, table.json and table.txt are in {}", SweepLegend(comparisons),
              options.sweep.folder.string());
  }
  WriteJson(options.json, json);
}

}  // namespace

void AddSweep(CLI::App& app) {
  auto options = std::make_shared<Options>();
  SweepOptions& sweep = options->sweep;
  CLI::App* command = app.add_subcommand(
      "sweep", "accuracy against bits: models x granularity x bits x tasks; run again, it does what is left");
  command->add_option("MODEL", options->models, "checkpoint folders")->required();
  SweepQuestion& question = sweep.question;
  command
      ->add_option("--site", question.site,
                   "what to quantize; several with commas between are quantized together, in one plan")
      ->capture_default_str();
  command->add_flag_callback(
      "--each-site", [&question] { question.sites = SweepSites::kEach; },
      "each of the sites alone, one after the other; a group (weights, linear_in) is each of its sites");
  command->add_option("--base", question.base, "a plan of rules that every quantized cell has besides");
  AddExecutedFlag(*command, sweep.carrying);
  command
      ->add_option("--stats", options->statistics,
                   "statistics file (tare stats --out) for rules with +static; once per model, in their order")
      ->allow_extra_args(false);
  command->add_option("--bits", question.bits, "16 (not quantized), 8, 6, 4, with commas between")
      ->delimiter(',')
      ->allow_extra_args(false)  // or it takes the folders after it
      ->capture_default_str();
  command
      ->add_option("--formats", question.formats,
                   "instead of --bits, formats by their names, with commas between: f32,int4,mxfp4,nvfp4")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--granularity", question.granularities,
                   "what shares a scale: row, head, tensor, with commas between; with options: tensor+static. Where "
                   "several sites are named, one that has none such takes the nearest that it has, and says so")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option("--tasks", options->tasks, TaskUsage(", ") + ", with commas between")->required();
  command->add_option("--out", sweep.folder, "folder of results")->required();
  command->add_option("--json", options->json, "write JSON to a file, or - for standard output");
  command->add_option("--seed", options->resampling.seed, "of the draws that intervals are from")
      ->capture_default_str();
  AddWindowOptions(*command, sweep.windows);
  AddStrideOption(*command, sweep.windows);
  options->machine.AddTo(*command);
  command->footer(
      "Example:\n  tare sweep experiments/pair/novels-standard experiments/pair/novels-differential --granularity row "
      "\\\n"
      "    --tasks perplexity=experiments/pair/heldout.txt,choice=experiments/pair/needles-4.jsonl --limit 40 --out "
      "sweep");
  command->callback([options] { Run(*options); });
}

}  // namespace tare
