// SPDX-License-Identifier: Apache-2.0
// tare compare: two checkpoints side by side at low bit widths, in one command and one folder: the outliers of both, a
// sweep (tools/sweep.h) that also measures the divergence of texts from each model's own f32, and the cost of each
// site alone: each model's attribution in a folder below the comparison's (attribution-A, attribution-B), as `tare
// attribute --out` writes it but for what is taken out, which that command adds, and the two side by side.
#include <iterator>
#include <memory>

#include "experiments/model/config/read_config.h"
#include "experiments/observe/outlier_report.h"
#include "experiments/passes/model_input.h"
#include "experiments/passes/sequences.h"
#include "experiments/studies/attribution/attribution_table.h"
#include "experiments/studies/sweep/pair_spread.h"
#include "experiments/studies/sweep/table.h"
#include "experiments/tasks/divergence.h"
#include "experiments/tasks/task.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/notice.h"
#include "quant/file/checked_lines.h"
#include "quant/file/folder_lock.h"
#include "quant/file/json_value.h"
#include "quant/plan/grid_files.h"
#include "tools/attribute.h"
#include "tools/help.h"
#include "tools/sweep.h"

namespace tare {
namespace {

struct CompareArguments : CellsCommand {
  std::vector<std::string> also;  // comparisons of other seeds of the pair
  std::string attribute;
  int64_t attribute_tokens = 10220;  // twenty windows of 511, the fewest that have an error
};

// The plan to attribute: the requested one, else the preset with the fewest bits (its rules cannot stand beside a
// cache); empty for none.
std::string AttributedPlan(const CompareArguments& options) {
  if (!options.attribute.empty()) return options.attribute == "none" ? "" : options.attribute;
  const SweepQuestion& question = options.sweep.question;
  const int fewest = question.bits.empty() ? 16 : std::ranges::min(question.bits);
  if (!question.plans.empty() || !question.formats.empty() || !options.cache.empty() || fewest == 16) return "";
  return Formatted("int{}", fewest);
}

// Adds after each task the one that compares its input with each model's own f32: divergence after perplexity.
std::vector<TaskSpec> WithCompared(const std::vector<TaskSpec>& asked) {
  std::vector<TaskSpec> tasks;
  for (const TaskSpec& task : asked) {
    tasks.push_back(task);
    if (task.kind->compared == nullptr) continue;
    const TaskSpec compared{task.kind->compared, task.file};
    if (!std::ranges::contains(asked, compared.Name(), &TaskSpec::Name)) tasks.push_back(compared);
  }
  return tasks;
}

// Puts the baseline of all changes first.
void AddBaseline(SweepQuestion& question) {
  const auto add = [](auto& list, auto baseline) {
    if (!std::ranges::contains(list, baseline)) list.insert(list.begin(), baseline);
  };
  if (!question.plans.empty()) {
    add(question.plans, std::string("f32"));
  } else if (!question.formats.empty()) {
    add(question.formats, std::string("f32"));
  } else {
    add(question.bits, 16);
  }
}

// The file of the first text among the tasks.
std::filesystem::path TextOf(const std::vector<TaskSpec>& tasks) {
  const auto text = std::ranges::find_if(tasks, [](const TaskSpec& task) { return task.kind->convention != nullptr; });
  if (text == tasks.end()) FailUsage("--tasks: got no text, expected one to measure outliers on; try perplexity=TEXT");
  return text->file;
}

// The result of an earlier run; null if it was another measurement.
Json Measured(const RecordLines& lines, size_t model, const Json& key) {
  const auto found = std::ranges::find(lines.records, model + 1, &Record::number);
  return found != lines.records.end() && found->object["key"] == key ? found->object["figures"] : Json();
}

std::filesystem::path OutlierLinesIn(const CellsCommand& options) { return options.sweep.folder / "outliers.jsonl"; }

RecordLines EarlierOutliers(const CellsCommand& options) {
  RecordLines earlier = ReadRecords(OutlierLinesIn(options), OutlierRecords());
  if (!earlier.damaged.empty()) Notice(DamageText(earlier) + "; what was there is measured again");
  return earlier;
}

// About how many tokens each part of a comparison takes through the models, for the time left.
struct ComparedWork {
  double outliers = 0;     // of one model
  double attribution = 0;  // of a plan's part in one model
};

// By the tokens of the first model; refuses windows that a part cannot use before anything runs.
ComparedWork WorkOf(const std::filesystem::path& text, const CellsCommand& options, int64_t attributed) {
  const std::filesystem::path& folder = options.sweep.models.front();
  const ModelConfig config = LoadConfig(folder);
  WindowOptions windows = options.sweep.windows;
  // The attribution takes no more of them.
  const TokenInput input = LoadTokenInput(text, folder, config.vocabulary, windows.NeededOf(config));
  ComparedWork work{.outliers = static_cast<double>(SizeOf(CutDisjoint(input, config, windows)).whole)};
  windows.tokens = attributed;
  work.attribution = static_cast<double>(SizeOf(CutSequences(input, config, windows)).whole);
  return work;
}

// For each model; one line each in outliers.jsonl. `later`: what follows.
std::vector<Json> Outliers(const CellsCommand& options, const RecordLines& earlier, ProgressLine& line,
                           const Later& later) {
  const WindowOptions& windows = options.sweep.windows;
  const std::filesystem::path text = TextOf(options.sweep.tasks);
  std::vector<Json> models;
  std::string lines;
  for (const std::filesystem::path& folder : options.sweep.models) {
    Model model(folder, options.sweep.math);
    const TokenInput input = LoadModelInput(text, model, windows.NeededOf(model.config()));
    Json key{{"weights", model.files().ContentHash()},
             {"input", input.sha256},
             {"window", windows.window},
             {"tokens", windows.tokens},
             {"limit", windows.limit},
             {"skip_first", kSkipFirst},
             {"math", options.machine.math}};
    if (windows.TakesPart()) key["from"] = Name(windows.from);
    if (input.in_windows) key["windows_begin"] = "lines";
    for (const auto& [name, hash] : ModelFileHashes(folder)) key[name] = hash;
    Json figures = Measured(earlier, models.size(), key);
    if (figures.is_null()) {
      const std::vector<ScoredSequence> sequences = CutDisjoint(input, model.config(), windows);
      const auto here = static_cast<double>(SizeOf(sequences).whole);
      const auto others = std::ssize(options.sweep.models) - std::ssize(models) - 1;
      line.Begin(
          model.Name() + " outliers",
          {.here = here, .after = static_cast<double>(others) * here + later.work, .runs_after = others + later.runs});
      figures = MeasureOutliers(model, input, sequences, kSkipFirst, line.Callback());
    }
    lines += OutlierLine(key, figures) + "\n";
    models.push_back(std::move(figures));
  }
  WriteFileAtomically(OutlierLinesIn(options), lines);
  return models;
}

// One model's options, and the plan cut into its parts.
struct ModelAttribution {
  CellsCommand options;
  AttributionQuestion question;
};

AttributionResult RunOne(ModelAttribution& model, ProgressLine& line, const Later& later) {
  OutputsIn(model.options.sweep.folder, {});
  const OutputFolder folder(model.options.sweep.folder);
  const std::vector<AtomicFile> claims = ClaimAttribution(model.options);
  return WriteAttribution(model.options, model.question, RunCells(model.options, line, later));
}

std::string PairLegend(const std::vector<AttributionPair>& pairs) {
  std::string text =
      "\nA, B: change from f32 with only that part quantized; B minus A:\n"
      "[low, high] 95 %, paired by window\n";
  size_t tested = 0;
  std::vector<const Comparison*> differences;
  for (const AttributionPair& pair : pairs) {
    differences.push_back(&*pair.whole.difference);
    tested += pair.whole.difference->p_holm ? 1 : 0;
    tested += static_cast<size_t>(std::ranges::count_if(
        pair.parts, [](const PartPair& part) { return part.difference && part.difference->p_holm; }));
  }
  if (tested > 0) text += Formatted("* significant: p < 0.05 after Holm over {} differences\n", tested);
  return text + UnitsLegend(differences);
}

// Tokens on which the cost of sites is measured.
int64_t AttributedTokens(const CompareArguments& options) {
  const int64_t tokens = options.sweep.windows.tokens;
  return tokens == 0 ? options.attribute_tokens : std::min(options.attribute_tokens, tokens);
}

// Both models by site, by divergence on so many tokens of the text. Throws Error, before anything runs, for a
// plan that cannot be cut or run.
std::vector<ModelAttribution> AskBoth(const CellsCommand& compare, const std::filesystem::path& text,
                                      const std::string& plan, int64_t tokens) {
  std::vector<ModelAttribution> both;
  for (size_t i = 0; i < 2; ++i) {
    ModelAttribution& one = both.emplace_back(ModelAttribution{.options = compare, .question = {}});
    one.options.models = {compare.models.at(i)};
    if (!compare.statistics.empty()) one.options.statistics = {compare.statistics.at(i)};
    one.options.json.clear();
    SweepOptions& sweep = one.options.sweep;
    sweep.folder = compare.sweep.folder / (i == 0 ? "attribution-A" : "attribution-B");
    sweep.question = {};
    sweep.carrying = Carrying::kSimulated;
    sweep.tasks = {{&kDivergenceTask, text}};
    sweep.windows.tokens = tokens;
    one.question = AskAttribution(one.options, plan, "site", PartCosts::kAlone);
  }
  return both;
}

struct ComparedAttribution {
  std::string table, legend;
  Json json;  // {"plan", "tokens", "models": [tare.attribution/1, ..], "differences"}
};

// Writes attribution.csv of the two side by side into the comparison's folder. `plan` is shown as the user gave it;
// `of_b`: the second model's part.
ComparedAttribution RunBoth(std::vector<ModelAttribution>& both, const std::string& plan,
                            const std::filesystem::path& folder, ProgressLine& line, const Later& of_b) {
  const AttributionResult a = RunOne(both.at(0), line, of_b), b = RunOne(both.at(1), line, {});
  const std::vector<AttributionPair> pairs = PairAttributions(a.model, b.model, both[0].question.plan);
  WriteFileAtomically(folder / "attribution.csv", AttributionPairCsv(pairs));
  return {.table = AttributionPairTable(pairs, plan, {a.json.at("model"), b.json.at("model")}),
          .legend = PairLegend(pairs),
          .json = {{"plan", both[0].question.plan.canonical()},
                   {"tokens", both[0].options.sweep.windows.tokens},
                   {"models", {a.json, b.json}},
                   {"differences", AttributionPairJson(pairs)}}};
}

struct ComparedParts {
  std::vector<Json> outliers;
  SweepResult sweep;
  ComparedAttribution attribution;  // empty without a plan
};

// One line of progress for all. The sweep comes first: only when it has read its tasks is it known how long all takes.
ComparedParts RunParts(const CompareArguments& options, std::vector<ModelAttribution>& both, const std::string& plan) {
  const ComparedWork work = WorkOf(TextOf(options.sweep.tasks), options, AttributedTokens(options));
  const RecordLines earlier = EarlierOutliers(options);
  std::vector<Later> attributed;
  Later at_last;
  for (const ModelAttribution& model : both) {
    const int64_t runs = std::ssize(model.options.sweep.question.plans);
    attributed.push_back({.work = work.attribution * static_cast<double>(runs), .runs = runs});
    at_last.work += attributed.back().work;
    at_last.runs += runs;
  }
  ProgressLine line("");
  ComparedParts parts;
  parts.sweep = RunAndWrite(options, line, {.work = 2 * work.outliers + at_last.work, .runs = 2 + at_last.runs});
  parts.outliers = Outliers(options, earlier, line, at_last);
  if (!both.empty()) parts.attribution = RunBoth(both, plan, options.sweep.folder, line, attributed.at(1));
  return parts;
}

void Run(CompareArguments& options) {
  options.sweep.tasks = WithCompared(ParseTasks(options.tasks));
  AddBaseline(options.sweep.question);
  options.sweep.study = "compare";
  options.folders = options.also;
  const std::filesystem::path text = TextOf(options.sweep.tasks);
  OutputsIn(options.sweep.folder, {});
  const OutputFolder folder(options.sweep.folder);
  const std::vector<AtomicFile> claims = ClaimSweep(
      options, {"outliers.jsonl", "outliers.csv", "attribution.csv", "pairs.csv", "compare.txt", "compare.json"});
  options.sweep.math = options.machine.Apply();
  for (const std::string& model : options.models) LoadConfig(model);
  const std::string plan = AttributedPlan(options);
  std::vector<ModelAttribution> both;
  if (!plan.empty()) both = AskBoth(options, text, plan, AttributedTokens(options));
  std::vector<ComparedPair> pairs{{.where = options.sweep.folder.string(), .sweep = {}}};
  for (const std::string& other : options.also) pairs.push_back(ReadComparedPair(other));
  const auto [outliers, result, attribution] = RunParts(options, both, plan);
  Json json{{"schema", "tare.compare/1"}, {"outliers", outliers}, {"sweep", result.json}};
  std::string page = OutlierTable(outliers) + OutlierLegend(outliers) + result.table + "\n" + result.legend;
  if (pairs.size() > 1) {
    pairs[0].sweep = result.json;
    const std::vector<PairSpread> spreads = SpreadOverPairs(pairs);
    WriteFileAtomically(options.sweep.folder / "pairs.csv", TableCsv(PairSpreads(spreads)));
    json["pairs"] = TableJson(PairSpreads(spreads));
    page += PairSpreadTable(spreads);
  }
  if (!plan.empty()) {
    json["attribution"] = attribution.json;
    page += attribution.table + attribution.legend;
  }
  WriteFileAtomically(options.sweep.folder / "outliers.csv", OutlierCsv(outliers));
  WriteFileAtomically(options.sweep.folder / "compare.txt", page);
  WriteFileAtomically(options.sweep.folder / "compare.json", JsonText(WithCommand(json), 2) + "\n");
  if (PrintsTables(options.json)) {
    PrintText("{}", page);
    PrintLine("compare.txt, compare.json, table.csv, outliers.csv{}{} are in\n{}",
              plan.empty() ? "" : ", attribution.csv", pairs.size() > 1 ? ", pairs.csv" : "",
              options.sweep.folder.string());
  }
  WriteJson(options.json, json);
}

}  // namespace

void AddCompare(CLI::App& app) {
  auto options = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand(
      "compare",
      "compare two checkpoints: outliers, accuracy and divergence against bits; whether one loses more, and where");
  command
      ->add_option("MODELS", options->models, "two checkpoint folders, A and B; differences are B's change minus A's")
      ->required()
      ->expected(2);
  AddSweepOptions(*command, *options);
  command
      ->add_option("--also", options->also,
                   "folder of the same comparison for a pair trained from another seed, to report the spread over all "
                   "pairs; repeatable")
      ->allow_extra_args(false);
  command
      ->add_option("--attribute", options->attribute,
                   "plan whose cost per site is measured in both models, by divergence (default: the preset with the "
                   "fewest bits; none: skip this)")
      ->transform(WithGridFiles);
  AddWhole(*command, "--attribute-tokens", options->attribute_tokens, "tokens of the first text to measure this on", 1);
  command->footer(
      Examples({"tare compare experiments/pair/novels-standard experiments/pair/novels-differential --granularity "
                "tensor --tasks perplexity=experiments/pair/heldout.txt --tokens 20440 --out compared",
                "tare compare experiments/pair/novels-standard experiments/pair/novels-differential --bits 8,4 "
                "--granularity row --tasks choice=experiments/pair/needles-4.jsonl --limit 500 --out needles"}));
  command->callback([options] { Run(*options); });
}

}  // namespace tare
