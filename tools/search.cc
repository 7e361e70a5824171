// SPDX-License-Identifier: Apache-2.0
// tare search: the cheapest plan within a loss (experiments/studies/search/search.h). Runs every level of every part
// alone, and then points of the frontier, all as cells of a sweep.
#include "experiments/studies/search/search.h"

#include <algorithm>
#include <memory>

#include "experiments/model/config.h"
#include "experiments/model/model.h"
#include "experiments/studies/search/search_table.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/atomic_file.h"
#include "quant/file/folder_lock.h"
#include "quant/file/json_value.h"
#include "quant/plan/grid_files.h"
#include "tools/cells.h"
#include "tools/help.h"

namespace tare {
namespace {

struct SearchArguments : CellsCommand {
  std::string model, input;
  double within = 0;
  CellNumbers numbers;
};

// Uses the levels' plans as the sweep's.
std::vector<SearchPart> Ask(SearchArguments& options, const ModelConfig& config) {
  const int64_t window = options.sweep.windows.window > 0 ? options.sweep.windows.window
                                                          : std::min<int64_t>(kTextWindow, config.max_positions);
  std::vector<SearchPart> parts = SearchParts(PlansOf(options.sweep.question), config, window);
  options.sweep.question.plans = SensitivityPlans(parts);
  options.sweep.study = "search";
  return parts;
}

// The requested cells, without the folder's others.
std::vector<SweepCell> Cells(const SearchArguments& options) {
  std::vector<SweepCell> cells = RunCells(options);
  if (!options.sweep.only) cells.resize(options.sweep.tasks.size() * options.sweep.question.plans.size());
  return cells;
}

void Write(const SearchArguments& options, const Search& search) {
  const std::string table = SearchTable(search);
  const Json json = SearchJson(search);
  const std::filesystem::path& folder = options.sweep.folder;
  WriteFileAtomically(folder / "search.csv", SearchCsv(search));
  WriteFileAtomically(folder / "search.txt", table);
  WriteFileAtomically(folder / "search.json", JsonText(json, 2) + "\n");
  if (PrintsTables(options.json)) {
    PrintText("{}", table);
    PrintLine("\nfinished cells, search.csv, search.json and search.txt are in {}", folder.string());
  }
  WriteJson(options.json, json);
}

void Run(SearchArguments& options) {
  if (!(options.within > 0)) FailUsage("--within: got {}, expected nats per token above 0; try 0.01", options.within);
  options.models = {options.model};
  const ModelConfig config = LoadConfig(options.model);
  const std::string divergence = "divergence=" + options.input;
  const std::vector<TaskSpec> all = ParseTasks(divergence + (options.tasks.empty() ? "" : "," + options.tasks));
  options.sweep.tasks = {all.front()};
  if (options.numbers.list) {
    Ask(options, config);
    return PrintCells(options);
  }
  Search search;
  search.model = ModelName(options.model);
  search.within = options.within;
  search.parts = Ask(options, config);
  ApplyTo(options, options.numbers);
  OutputsIn(options.sweep.folder, {});
  const OutputFolder folder(options.sweep.folder);
  options.sweep.tasks = all;
  const std::vector<AtomicFile> claims = ClaimCells(options, {"search.csv", "search.txt", "search.json"});
  options.sweep.tasks = {all.front()};
  options.sweep.math = options.machine.Apply();
  Merge(options, options.numbers);
  const std::vector<SweepCell> alone = Cells(options);
  if (options.sweep.only) return PrintLine("finished cells are in {}", options.sweep.folder.string());
  SetLosses(alone, search.parts);
  search.frontier = FrontierOf(search.parts);
  options.sweep.tasks = all;
  Verify(search, [&](size_t step) {
    const std::string plan = PlanAt(search.parts, search.frontier[step].levels, config);
    options.sweep.question.plans = {"f32", plan};
    return PointOf(step, Plan::Parse(plan).canonical(), Cells(options));
  });
  Write(options, search);
}

}  // namespace

void AddSearch(CLI::App& app) {
  auto options = std::make_shared<SearchArguments>();
  CLI::App* command =
      app.add_subcommand("search",
                         "find the cheapest plan within a loss: bits for each site and layer, predicted from what each "
                         "loses alone, then measured; resumes where it stopped");
  command
      ->add_option("MODEL", options->model,
                   "checkpoint folder (also of other tools), quantized checkpoint or GGUF file")
      ->required();
  command->add_option("--input", options->input, "text, or ids in .safetensors or .h5, for the divergence from MODEL")
      ->required();
  command
      ->add_option("--within", options->within,
                   "largest loss allowed: mean Kullback-Leibler divergence, nats per token")
      ->required();
  SweepQuestion& question = options->sweep.question;
  question.site = "weights,linear_in,q,k,v,attn_logits,probs";
  question.bits = {8, 6, 4};
  command->add_option("--site", question.site, "sites to search, separated by commas")->capture_default_str();
  AddList(*command, "--bits", question.bits, "bits to choose from, in addition to 16: 8, 6, 4, separated by commas")
      ->capture_default_str();
  AddList(*command, "--granularity", question.granularities,
          "what shares a scale: row, head, tensor; the search also chooses among several, separated by commas")
      ->capture_default_str();
  command
      ->add_option("--plan", question.plans,
                   "instead of sites, bits and granularities: a plan whose rules give each part one level; repeatable")
      ->transform(WithGridFiles)
      ->allow_extra_args(false)
      ->excludes("--site", "--bits", "--granularity");
  AddCellsOptions(*command, *options);
  command->get_option("--tasks")->required(false)->description("tasks also run at the measured points: " +
                                                               TaskUsage(", "));
  options->numbers.AddTo(*command);
  command->footer(
      "Cost: every multiply-add takes two operands, and each costs its bits, 16 if it is\n"
      "not quantized. attn_logits count once each, caches what decoding reads.\n"
      "Scales cost nothing.\n\n" +
      Examples(
          {"tare search experiments/pair/novels-differential --within 0.02 --bits 8,4 --window 128 --tokens 2540 "
           "--input "
           "experiments/pair/heldout.txt --out search",
           "tare search experiments/pair/novels-standard --within 0.05 --plan int8 --plan int4 --tokens 10220 --input "
           "experiments/pair/heldout.txt --tasks choice=experiments/pair/needles-4.jsonl --limit 100 --out presets"}));
  command->callback([options] { Run(*options); });
}

}  // namespace tare
