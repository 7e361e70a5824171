// SPDX-License-Identifier: Apache-2.0
// tare attribute: the cost of each part of a plan. Runs the cells of a sweep over the plan's parts, each alone and each
// taken out, and evaluates them (experiments/studies/attribution/attribution.h).
#include "tools/attribute.h"

#include <algorithm>
#include <iterator>
#include <memory>

#include "experiments/model/config/read_config.h"
#include "experiments/model/sites_of_model.h"
#include "experiments/studies/attribution/attribution_table.h"
#include "quant/file/atomic_file.h"
#include "quant/file/folder_lock.h"
#include "quant/plan/grid_files.h"
#include "tools/help.h"

namespace tare {

AttributionQuestion AskAttribution(CellsCommand& options, const std::string& plan, const std::string& by,
                                   PartCosts costs) {
  AttributionQuestion question{.plan = Plan::Parse(plan), .by = by, .parts = {}, .costs = costs};
  question.parts = PartsOf(question.plan, ParseGrain(by), ModelSitesOf(LoadConfig(options.models.at(0))));
  options.sweep.question.plans = AttributionPlans(question.plan, question.parts, costs);
  options.sweep.study = "attribute";
  return question;
}

std::vector<AtomicFile> ClaimAttribution(CellsCommand& options) {
  return ClaimCells(options, {"attribution.csv", "attribution.txt", "attribution.json"});
}

namespace {

// The cells that were asked for, and those of what is taken out if an earlier run in the folder has all of them.
std::vector<SweepCell> WithTakenOut(std::vector<SweepCell> cells, const CellsCommand& options,
                                    const AttributionQuestion& question) {
  const size_t asked = options.sweep.tasks.size() * options.sweep.question.plans.size();
  std::vector<SweepCell> others(std::make_move_iterator(cells.begin() + static_cast<ptrdiff_t>(asked)),
                                std::make_move_iterator(cells.end()));
  cells.resize(asked);
  std::vector<SweepCell> taken_out;
  for (const TaskSpec& task : options.sweep.tasks) {
    for (const PlanPart& part : question.parts) {
      const auto found = std::ranges::find_if(others, [&](const SweepCell& cell) {
        return cell.task == task.Name() && cell.Plan() == part.without.canonical();
      });
      if (found == others.end()) return cells;
      taken_out.push_back(std::move(*found));
    }
  }
  std::ranges::move(taken_out, std::back_inserter(cells));
  return cells;
}

}  // namespace

AttributionResult WriteAttribution(const CellsCommand& options, const AttributionQuestion& question,
                                   std::vector<SweepCell> cells) {
  const size_t asked = options.sweep.tasks.size() * options.sweep.question.plans.size();
  cells = WithTakenOut(std::move(cells), options, question);
  const PartCosts costs = cells.size() > asked ? PartCosts::kAloneAndTakenOut : question.costs;
  std::vector<Attribution> attributions = Attribute(cells, question.plan, question.parts, costs);
  const std::string model = cells.front().model;
  AttributionResult result{.model = {.cells = std::move(cells), .attributions = std::move(attributions)},
                           .json = {},
                           .table = {},
                           .legend = {}};
  const std::vector<Attribution>& all = result.model.attributions;
  result.json = AttributionJson(all, model, question.plan, question.by);
  result.table = AttributionTable(all);
  result.legend = AttributionLegend(all);
  const std::filesystem::path& folder = options.sweep.folder;
  WriteFileAtomically(folder / "attribution.csv", AttributionCsv(all, question.plan));
  WriteFileAtomically(folder / "attribution.txt", result.table);
  WriteFileAtomically(folder / "attribution.json", JsonText(WithCommand(result.json), 2) + "\n");
  return result;
}

namespace {

struct AttributeArguments : CellsCommand {
  std::string model, plan, by = "site";
  CellNumbers numbers;
};

void Run(AttributeArguments& options) {
  options.models = {options.model};
  options.sweep.tasks = ParseTasks(options.tasks);
  if (options.numbers.list) {
    AskAttribution(options, options.plan, options.by);
    return PrintCells(options);
  }
  ApplyTo(options, options.numbers);
  OutputsIn(options.sweep.folder, {});
  const OutputFolder folder(options.sweep.folder);
  const std::vector<AtomicFile> claims = ClaimAttribution(options);
  options.sweep.math = options.machine.Apply();
  const AttributionQuestion question = AskAttribution(options, options.plan, options.by);
  Merge(options, options.numbers);
  std::vector<SweepCell> cells = RunCells(options);
  if (options.sweep.only) return PrintLine("finished cells are in {}", options.sweep.folder.string());
  const AttributionResult result = WriteAttribution(options, question, std::move(cells));
  if (PrintsTables(options.json)) {
    PrintText("{}", result.table);
    PrintLine("\n{}finished cells, attribution.csv, attribution.json and attribution.txt are in\n{}", result.legend,
              options.sweep.folder.string());
  }
  WriteJson(options.json, result.json);
}

}  // namespace

void AddAttribute(CLI::App& app) {
  auto options = std::make_shared<AttributeArguments>();
  CLI::App* command = app.add_subcommand(
      "attribute", "measure what each part of a plan costs, alone and taken out; resumes where it stopped");
  command
      ->add_option("MODEL", options->model,
                   "checkpoint folder (also of other tools), quantized checkpoint or GGUF file")
      ->required();
  command->add_option("--plan", options->plan, "the plan, simulated")->transform(WithGridFiles)->required();
  command
      ->add_option(
          "--by", options->by,
          "how to cut the plan into parts: site, layer, head, head-group (heads that share a key head), map, or "
          "several separated by commas")
      ->capture_default_str();
  AddCellsOptions(*command, *options);
  options->numbers.AddTo(*command);
  command->footer(
      Examples({"tare attribute experiments/pair/novels-differential --plan int4 --by site --tasks "
                "divergence=experiments/pair/heldout.txt --tokens 20440 --out blame",
                "tare attribute experiments/pair/novels-differential --plan attn_logits=int4/tensor --by layer --tasks "
                "choice=experiments/pair/needles-4.jsonl --limit 100 --out layers",
                "tare attribute experiments/pair/novels-differential --plan q=int4/token,k=int4/token --by head-group "
                "--tasks divergence=experiments/pair/heldout.txt --tokens 4088 --out groups"}));
  command->callback([options] { Run(*options); });
}

}  // namespace tare
