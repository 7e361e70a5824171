// SPDX-License-Identifier: Apache-2.0
// tare compare: two checkpoints at low bit widths: the outliers of both; a sweep (tools/cells.h) that also measures
// texts' divergence from each model's f32; and each site's cost alone: attributions in folders below (attribution-A,
// attribution-B), as `tare attribute --out` writes them without what is taken out, and the two side by side.
#include "experiments/model/config/config.h"
#include "experiments/observe/statistics_report.h"
#include "experiments/studies/compare/compare_question.h"
#include "experiments/studies/sweep/comparison.h"
#include "tools/cells.h"

namespace tare {
namespace {

struct CompareArguments : CellsCommand {
  std::string attribute;
  int64_t attribute_tokens = 10220;  // twenty windows of 511, the fewest that have an error
};

AttributionResult RunOne(const ModelAttribution& model, ProgressLine& line, int64_t runs_later) {
  return WriteAttribution(model.sweep, model.question, RunCells(model.sweep, line, runs_later));
}

int64_t RunsOf(const ModelAttribution& model) { return std::ssize(model.sweep.question.plans); }

// The two side by side. `plan` is shown as the user gave it. As JSON: {"plan", "tokens", "models":
// [tare.attribution/1, ..], "differences"}.
StudyResult RunBoth(const std::vector<ModelAttribution>& both, const std::string& plan, ProgressLine& line) {
  const AttributionResult a = RunOne(both.at(0), line, RunsOf(both.at(1))), b = RunOne(both.at(1), line, 0);
  const std::vector<AttributionPair> pairs = PairAttributions(a.model, b.model, both[0].question.plan);
  return {.json = {{"plan", both[0].question.plan.canonical()},
                   {"tokens", both[0].sweep.windows.tokens},
                   {"models", {a.json, b.json}},
                   {"differences", AttributionPairJson(pairs)}},
          .csv = AttributionPairCsv(pairs),
          .table = AttributionPairTable(pairs, plan, {a.json.at("model"), b.json.at("model")}),
          .legend = AttributionPairLegend(pairs)};
}

struct Compared {
  Json json;
  std::string page;
};

// Runs all parts under one line of progress and joins what they say. `pairs`: this comparison and other seeds'.
Compared RunAll(const SweepOptions& options, const std::vector<ModelAttribution>& both, const std::string& plan,
                std::vector<ComparedPair>& pairs) {
  const RecordLines earlier = EarlierOutliers(options);
  ProgressLine line("");
  int64_t of_sites = 0;
  for (const ModelAttribution& model : both) of_sites += RunsOf(model);
  const StudyResult sweep = RunAndWrite(options, line, std::ssize(options.models) + of_sites);
  const std::vector<Json> outliers = OutliersOf(options, earlier, [&](const std::string& what, int64_t runs_after) {
    line.Begin(what, runs_after + of_sites);
    return line.Callback();
  });
  const StudyResult attribution = both.empty() ? StudyResult() : RunBoth(both, plan, line);
  Compared all{.json = {{"schema", "tare.compare/1"}, {"outliers", outliers}, {"sweep", sweep.json}},
               .page = OutlierTable(outliers) + OutlierLegend(outliers) + sweep.table + "\n" + sweep.legend};
  if (pairs.size() > 1) {
    pairs[0].sweep = sweep.json;
    const std::vector<PairSpread> spreads = SpreadOverPairs(pairs);
    WriteFileAtomically(options.folder / "pairs.csv", TableCsv(PairSpreads(spreads)));
    all.json["pairs"] = TableJson(PairSpreads(spreads));
    all.page += PairSpreadTable(spreads);
  }
  WriteFileAtomically(options.folder / "outliers.csv", OutlierCsv(outliers));
  if (!both.empty()) {
    all.json["attribution"] = attribution.json;
    WriteFileAtomically(options.folder / "attribution.csv", attribution.csv);
  }
  all.page += attribution.table + attribution.legend;
  return all;
}

void Run(const CLI::App&, CompareArguments& options) {
  SweepOptions& sweep = options.sweep;
  sweep.tasks = ParseTasks(options.tasks);
  CompleteQuestion(sweep);
  sweep.study = "compare";
  TextOf(sweep.tasks);  // refuses tasks without one before the folder is claimed
  const ClaimedFolder claims =
      ClaimCells(options, "table", "tare.compare/",
                 {"outliers.jsonl", "outliers.csv", "attribution.csv", "pairs.csv", "compare.txt", "compare.json"});
  sweep.math = options.machine.Apply();
  for (const std::filesystem::path& model : sweep.models) LoadConfig(model);
  const int64_t tokens = sweep.windows.tokens;
  const std::string plan = AttributedPlan(sweep, options.attribute);
  const std::vector<ModelAttribution> both =
      AskBoth(sweep, plan, tokens == 0 ? options.attribute_tokens : std::min(options.attribute_tokens, tokens));
  std::vector<ClaimedFolder> sites;
  for (const ModelAttribution& model : both)
    sites.push_back(ClaimAttribution({.tasks = {}, .json = {}, .sweep = model.sweep, .fresh = options.fresh}));
  std::vector<ComparedPair> pairs{{.where = sweep.folder.string(), .sweep = {}}};
  for (const std::filesystem::path& other : options.folders) pairs.push_back(ReadComparedPair(other));
  const Compared all = RunAll(sweep, both, plan, pairs);
  WriteFileAtomically(sweep.folder / "compare.txt", all.page);
  WriteFileAtomically(sweep.folder / "compare.json", JsonText(WithCommand(all.json), 2) + "\n");
  if (PrintsTables(options.json)) {
    PrintText("{}", all.page);
    PrintLine("compare.txt, compare.json, table.csv, outliers.csv{}{} are in\n{}",
              plan.empty() ? "" : ", attribution.csv", pairs.size() > 1 ? ", pairs.csv" : "",
              MadeIn(sweep.folder, "compare.txt"));
  }
  WriteJson(options.json, all.json);
}

}  // namespace

void AddCompare(CLI::App& app) {
  const auto [command, options] = NewCommand<CompareArguments>(
      app, "compare", "show which of two checkpoints fewer bits cost more, and where", Run);
  AddModel(command, options.sweep.models)->expected(2);
  AddSweepOptions(command, options);
  Group(command, "Cost of each site");
  Add(command, "--attribute RULES", options.attribute,
      "plan that is measured site by site (default: the preset of fewest bits; none: skip this)")
      ->transform(WithGridFiles);
  AddWhole(command, "--attribute-tokens N", options.attribute_tokens, "tokens of the first text for it", 1);
  Group(command, "Output");
  Add(command, "--also DIR", options.folders, "--out of the same comparison of another pair (seed); repeatable")
      ->allow_extra_args(false);
  AddSharedOptions(command, options);
}

}  // namespace tare
