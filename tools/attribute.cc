// SPDX-License-Identifier: Apache-2.0
// tare attribute: the cost of each part of a plan. Runs the cells of a sweep over the plan's parts, each alone and each
// taken out, and evaluates them (experiments/studies/attribution/attribution.h).
#include "tools/cells.h"

#include "experiments/studies/attribution/attribution.h"
#include "quant/file/atomic_file.h"
#include "quant/plan/plan.h"
#include "tools/help.h"

namespace tare {

ClaimedFolder ClaimAttribution(const CellsCommand& options) {
  return ClaimCells(options, {"attribution.csv", "attribution.txt", "attribution.json"});
}

AttributionResult WriteAttribution(const SweepOptions& options, const AttributionQuestion& question,
                                   std::vector<SweepCell> cells) {
  const std::string name = cells.front().model;
  AttributedModel model = AttributeCells(options, question, std::move(cells));
  const std::vector<Attribution>& all = model.attributions;
  const Json json = AttributionJson(all, name, question.plan, question.by);
  const std::string table = AttributionTable(all), legend = AttributionLegend(all);
  WriteFileAtomically(options.folder / "attribution.csv", AttributionCsv(all, question.plan));
  WriteFileAtomically(options.folder / "attribution.txt", table);
  WriteFileAtomically(options.folder / "attribution.json", JsonText(WithCommand(json), 2) + "\n");
  return {.model = std::move(model), .json = json, .table = table, .legend = legend};
}

namespace {

struct AttributeArguments : CellsCommand {
  std::filesystem::path model;
  std::string plan, by = "site";
};

void Run(const CLI::App&, AttributeArguments& options) {
  SweepOptions& sweep = options.sweep;
  sweep.models = {options.model};
  sweep.tasks = ParseTasks(options.tasks);
  if (options.list) {
    AskAttribution(sweep, options.plan, options.by);
    return PrintCells(sweep);
  }
  Select(options);
  const ClaimedFolder claims = ClaimAttribution(options);
  sweep.math = options.machine.Apply();
  const AttributionQuestion question = AskAttribution(sweep, options.plan, options.by);
  Merge(options);
  std::vector<SweepCell> cells = RunCells(sweep);
  if (sweep.only) return PrintLine("finished runs are in {}", sweep.folder.string());
  const AttributionResult result = WriteAttribution(sweep, question, std::move(cells));
  if (PrintsTables(options.json)) {
    PrintText("{}", result.table);
    PrintLine("\n{}finished runs, attribution.csv, attribution.json and attribution.txt are in\n{}", result.legend,
              sweep.folder.string());
  }
  WriteJson(options.json, result.json);
}

}  // namespace

void AddAttribute(CLI::App& app) {
  const auto [command, options] = NewCommand<AttributeArguments>(
      app, "attribute", "measure what each part of a plan costs, alone and taken out", Run);
  AddModel(command, options.model);
  Group(command, "What to quantize");
  AddPlanOption(command, options.plan, "the plan, simulated")->required();
  Add(command, "--by NAME,...", options.by, "parts: site, layer, head, map, or head-group (of one KV head)");
  AddCellsOptions(command, options);
  AddCellNumbers(command, options);
  AddSharedOptions(command, options);
  command.footer(
      Examples({"tare attribute experiments/pair/novels-differential --plan int4 --by site --tasks "
                "divergence=experiments/pair/heldout.txt --tokens 20440 --out blame",
                "tare attribute experiments/pair/novels-differential --plan attn_logits=int4/tensor --by layer --tasks "
                "choice=experiments/pair/needles-4.jsonl --limit 100 --out layers",
                "tare attribute experiments/pair/novels-differential --plan q=int4/token,k=int4/token --by head-group "
                "--tasks divergence=experiments/pair/heldout.txt --tokens 4088 --out groups"}));
}

}  // namespace tare
