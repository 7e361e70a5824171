// SPDX-License-Identifier: Apache-2.0
// tare sweep: accuracy against bits, models side by side; continues where it stopped. tare attribute: each part's cost,
// alone and taken out of the plan, as cells of a sweep (experiments/studies/attribution/attribution.h).
#include "experiments/model/linear/weights.h"
#include "experiments/model/model.h"
#include "experiments/studies/sweep/comparison.h"
#include "experiments/table/table.h"
#include "tools/cells.h"

namespace tare {

// ---- sweep

namespace {

// How large each version is, so that figures are read at equal sizes; and the bits per weight of its quantized
// matrices, the plan, the method and what it was calibrated on, which the text leaves to tare inspect.
Table SizesOf(const std::vector<std::filesystem::path>& models) {
  Table table{.columns = {Left("model", "size", 26),
                          Number("bits_per_weight", "bits per weight of all tensors", "{:.2f}", 30),
                          Number("megabytes", "MB", "{:.2f}", 10)}};
  for (const std::filesystem::path& model : models) {
    const Checkpoint checkpoint(model);
    const StoredSize size = StoredSizeOf(checkpoint);
    table.Add({ModelName(model), size.BitsPerWeight(), static_cast<double>(size.bytes) / 1e6});
    if (size.quantized_values > 0) table.rows.back()["quantized_bits"] = size.QuantizedBits();
    if (const QuantizedCheckpoint* const file = checkpoint.quantized())
      table.rows.back().update({{"plan", file->provenance().plan},
                                {"method", file->provenance().method},
                                {"calibration", file->provenance().calibration}});
  }
  return table;
}

// Without a source, a quantized file's changes are what a plan adds to what the file has lost already.
void WarnOfQuantized(const std::vector<std::filesystem::path>& models) {
  std::vector<std::string> quantized;
  for (const std::filesystem::path& model : models) {
    if (StoredSizeOf(Checkpoint(model)).quantized_values > 0) quantized.push_back(ModelName(model));
  }
  if (!quantized.empty())
    Notice(
        Formatted("{}: quantized already; `unquantized` is the file as stored, and changes are from it, not from the "
                  "model that it was made from; try --source MODEL",
                  Listed(quantized, ", ")));
}

// The source is the first of the models. The versions run as stored, too, unless plans are given.
void AddSource(const CLI::App& command, SweepOptions& sweep) {
  if (sweep.source.empty()) return;
  sweep.models.insert(sweep.models.begin(), sweep.source);
  const auto given = [&](const char* option) { return command.count(option) > 0; };
  if (!given("--plan") && !given("--plans") && !given("--site") && !given("--bits") && !given("--formats"))
    sweep.question.plans = {"f32"};
}

void Run(const CLI::App& command, CellsCommand& options) {
  AddSource(command, options.sweep);
  options.sweep.tasks = ParseTasks(options.tasks);
  if (options.list) return PrintCells(options.sweep);
  Select(options);
  const ClaimedFolder claims = ClaimCells(options, "table", "tare.sweep/");
  if (options.sweep.source.empty()) WarnOfQuantized(options.sweep.models);
  options.sweep.math = options.machine.Apply();
  Merge(options);
  const StudyResult result = [&] {
    ProgressLine line("");
    return RunAndWrite(options.sweep, line);
  }();
  ShowStudy(options, "table", result);
}

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
  ShowStudy(options, "attribution", WriteAttribution(sweep, question, std::move(cells)));
}

}  // namespace

StudyResult RunAndWrite(const SweepOptions& options, ProgressLine& line, int64_t runs_later) {
  std::vector<SweepCell> cells = RunCells(options, line, runs_later);
  const Table sizes = options.source.empty() ? Table() : SizesOf(options.models);
  AddVersions(TableJson(sizes), cells);
  Comparisons comparisons = CompareCells(cells);
  comparisons.margin = options.margin;
  StudyResult result{.json = WithCommand(SweepJson(cells, comparisons)),
                     .csv = SweepCsv(cells, comparisons),
                     .table = SweepTable(cells, comparisons),
                     .legend = SweepLegend(comparisons)};
  if (!options.source.empty()) {
    result.json["sizes"] = TableJson(sizes);
    result.table = "\n" + TableText(sizes, 2) + result.table;
  }
  const std::vector<CutSpread> cuts = SpreadOverCuts(cells, comparisons, ModelsByCuts(options.models));
  if (!cuts.empty()) {
    result.json["over_cuts"] = TableJson(CutSpreads(cuts));
    const std::vector<PairSpread> differences = DifferencesOverCuts(cuts);
    if (!differences.empty()) result.json["between_methods"] = TableJson(PairSpreads(differences));
    result.table += CutSpreadTable(cuts) + CutDifferenceTable(differences);
  }
  WriteStudy(options.folder, "table", result);
  return result;
}

void AddSweepOptions(CLI::App& command, CellsCommand& options) {
  SweepOptions& sweep = options.sweep;
  SweepQuestion& question = sweep.question;
  Group(command, "What to quantize");
  Add(command, "--site NAME,...", question.site, "sites, quantized together in one plan");
  command.add_flag_callback(
      "--each-site", [&question] { question.sites = SweepSites::kEach; }, "each site alone instead, one after another");
  AddList(command, "--bits N,...", question.bits, "16: unquantized; also 3, 2 for weights, k, v");
  AddList(command, "--formats NAME,...", question.formats, "instead of --bits: f32,int4,mxfp4,nvfp4")
      ->transform(WithGridFiles);
  AddList(command, "--granularity NAME,...", question.granularities,
          "row, head, tensor; tensor+static. Sites without it use their nearest, with a notice");
  Add(command, "--base RULES", question.base, "rules added to every quantized run")->transform(WithGridFiles);
  CLI::Option* const plan =
      AddPlanOption(command, question.plans, "instead of these: a whole plan (f32: unquantized); repeatable")
          ->excludes("--site", "--each-site", "--base", "--bits", "--formats", "--granularity");
  const auto plans = [&question](const std::string& text) {
    const std::string whole = WithGridFiles(text);
    for (const std::string_view one : SplitRules(whole)) {
      if (one.empty()) FailUsage("--plans: got '{}', expected a plan between commas: f32,sage2,kivi4", text);
      question.plans.emplace_back(one);
    }
  };
  Add(command, "--plans NAME,...", plans, "the same for presets and plans of one rule: f32,sage2,kivi4")
      ->excludes(plan, "--site", "--each-site", "--base", "--bits", "--formats", "--granularity");
  AddExecutedFlag(command, sweep.carrying);
  AddCellsOptions(command, options);
  const auto margin = [&sweep](const std::string& text) { sweep.margin = ParseMargin(text); };
  Add(command, "--equivalent M%", margin, "also judge whether changes are shown to be within M %, e.g. 0.5%");
}

void AddSweep(CLI::App& app) {
  const auto [command, options] =
      NewCommand<CellsCommand>(app, "sweep", "measure accuracy against bits, models side by side", Run);
  AddModel(command, options.sweep.models);
  AddSweepOptions(command, options);
  Group(command, "What to quantize");
  Add(command, "--source MODEL", options.sweep.source,
      "what the MODELs were quantized from, by any tool: changes are from it");
  AddCellNumbers(command, options);
  AddSharedOptions(command, options);
}

// ---- attribute

ClaimedFolder ClaimAttribution(const CellsCommand& options) {
  return ClaimCells(options, "attribution", "tare.attribution/");
}

AttributionResult WriteAttribution(const SweepOptions& options, const AttributionQuestion& question,
                                   std::vector<SweepCell> cells) {
  const std::string name = cells.front().model;
  AttributedModel model = AttributeCells(options, question, std::move(cells));
  const std::vector<Attribution>& all = model.attributions;
  AttributionResult result{{.json = AttributionJson(all, name, question.plan, question.by),
                            .csv = AttributionCsv(all, question.plan),
                            .table = AttributionTable(all),
                            .legend = AttributionLegend(all)},
                           std::move(model)};
  WriteStudy(options.folder, "attribution", result);
  return result;
}

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
}

}  // namespace tare
