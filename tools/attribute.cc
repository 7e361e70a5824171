// SPDX-License-Identifier: Apache-2.0
// tare attribute: which part of a plan is to blame. The cells of a sweep over the plan's parts, each alone and each taken
// out, and what they say (experiments/attribution/attribution.h).
#include <memory>

#include "experiments/attribution/attribution_table.h"
#include "experiments/model/sites_of_model.h"
#include "quant/base/formatted.h"
#include "quant/file/atomic_file.h"
#include "quant/file/folder_lock.h"
#include "quant/file/json.h"
#include "quant/file/json_text.h"
#include "quant/plan/grid_files.h"
#include "tools/cells.h"
#include "tools/help.h"

namespace tare {
namespace {

struct AttributeArguments : CellsCommand {
  std::string model, plan, by = "site";
  CellNumbers numbers;
};

void Write(const AttributeArguments& options, const Plan& plan, const std::vector<PlanPart>& parts,
           std::vector<SweepCell> cells) {
  cells.resize(options.sweep.tasks.size() * options.sweep.question.plans.size());  // without the folder's others
  const std::vector<Attribution> attributions = Attribute(cells, plan, parts, options.resampling);
  const std::string table = AttributionTable(attributions);
  const nlohmann::ordered_json json =
      AttributionJson(attributions, cells.front().model, plan, options.by, options.resampling);
  const std::filesystem::path& folder = options.sweep.folder;
  WriteFileAtomically(folder / "attribution.csv", AttributionCsv(attributions, plan));
  WriteFileAtomically(folder / "attribution.txt", table);
  WriteFileAtomically(folder / "attribution.json", JsonText(WithCommand(json), 2) + "\n");
  if (PrintsTables(options.json)) {
    PrintText("{}", table);
    PrintLine("\n{}finished cells, attribution.csv, attribution.json and attribution.txt are in\n{}",
              AttributionLegend(attributions), folder.string());
  }
  WriteJson(options.json, json);
}

struct Question {
  Plan plan;
  std::vector<PlanPart> parts;
};

// Its plans become the sweep's.
Question Ask(AttributeArguments& options) {
  Question question{.plan = Plan::Parse(options.plan), .parts = {}};
  question.parts = PartsOf(question.plan, ParseGrain(options.by), ModelSitesOf(LoadConfig(options.model)));
  options.sweep.question.plans = AttributionPlans(question.plan, question.parts);
  return question;
}

void Run(AttributeArguments& options) {
  options.models = {options.model};
  options.sweep.tasks = ParseTasks(options.tasks);
  if (options.numbers.list) {
    Ask(options);
    return PrintCells(options);
  }
  ApplyTo(options, options.numbers);
  OutputsIn(options.sweep.folder, {});
  const OutputFolder folder(options.sweep.folder);
  const std::vector<AtomicFile> claims =
      ClaimCells(options, {"attribution.csv", "attribution.txt", "attribution.json"});
  options.sweep.math = options.machine.Apply();
  const Question question = Ask(options);
  Merge(options, options.numbers);
  std::vector<SweepCell> cells = RunCells(options);
  if (options.sweep.only) return PrintLine("finished cells are in {}", options.sweep.folder.string());
  Write(options, question.plan, question.parts, std::move(cells));
}

}  // namespace

void AddAttribute(CLI::App& app) {
  auto options = std::make_shared<AttributeArguments>();
  CLI::App* command = app.add_subcommand(
      "attribute", "which part of a plan is to blame: each alone, and each taken out; run again, it does what is left");
  command->add_option("MODEL", options->model, "checkpoint folder or quantized checkpoint")->required();
  command->add_option("--plan", options->plan, "the plan, simulated")->transform(WithGridFiles)->required();
  command->add_option("--by", options->by, "what parts are: site, layer, head, map, or several with commas between")
      ->capture_default_str();
  AddCellsOptions(*command, *options);
  options->numbers.AddTo(*command);
  command->footer(
      Examples({"tare attribute experiments/pair/novels-differential --plan int4 --by site --tasks "
                "divergence=experiments/pair/heldout.txt --tokens 20440 --out blame",
                "tare attribute experiments/pair/novels-differential --plan attn_logits=int4/tensor --by layer --tasks "
                "choice=experiments/pair/needles-4.jsonl --limit 100 --out layers"}));
  command->callback([options] { Run(*options); });
}

}  // namespace tare
