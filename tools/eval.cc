// SPDX-License-Identifier: Apache-2.0
// tare eval: a model's accuracy under a plan.
#include <csignal>
#include <exception>

#include "experiments/plan/cache_plan.h"
#include "experiments/tasks/evaluation.h"
#include "tools/run_options.h"

namespace tare {
namespace {

struct EvalArguments {
  std::string model, plan, stats, tasks, json, records, csv;
  std::optional<CachePlan> cache;
  Breakdown breakdown;
  Carrying carrying = Carrying::kSimulated;
  TaskOptions task;
  MachineOptions machine;
};

void CheckEffects(const CLI::App& command, const Plan& plan, const std::vector<TaskSpec>& specs,
                  const EvalArguments& options) {
  const Breakdown& breakdown = options.breakdown;
  RequireEffect(command, !plan.empty(), {"--executed"}, "a --plan");
  const bool of_cache = options.cache && options.cache->rules.HasStaticScales();
  RequireEffect(command, of_cache || plan.HasStaticScales(), {"--stats"}, "a rule with +static");
  const auto any = [&](auto has) { return std::ranges::any_of(specs, has, &TaskSpec::kind); };
  RequireEffect(command, any(&TaskKind::convention), {"--window", "--convention"}, "a task on texts");
  const bool texts = any(&TaskKind::by_position);
  RequireEffect(command, texts, {"--stride", "--tokens"}, "a task on a text");
  RequireEffect(command, any([](const TaskKind* kind) { return kind->of_texts; }), {"--cache"},
                "a task on a text or on items");
  const bool items = any([](const TaskKind* kind) { return HasItems(*kind); });
  const auto records = [](const TaskKind* kind) { return kind->of_documents || (HasItems(*kind) && !kind->of_images); };
  RequireEffect(command, any(records), {"--records"}, "a task with items or documents");
  RequireEffect(command, breakdown.ByPosition() ? texts : items, {"--by"},
                "a task with items (by their keys) or on a text (by position)");
  if (breakdown.ByPosition() && items)
    throw CLI::ValidationError(
        "--by", "got position, which applies to texts only, with a task of items; try one task at a time");
  RequireEffect(command, !breakdown.ByPosition(), {"--over"}, "--by with keys of items");
  RequireEffect(command, any(&TaskKind::beside), {"--other-tower"}, TasksThat(&TaskKind::beside));
  RequireEffect(command, any(&TaskKind::answers), {"--max-tokens", "--temperature", "--top-p", "--sampling-seed"},
                "a task that generates answers");
  RequireEffect(command, any(&TaskKind::short_context), {"--short-context"}, TasksThat(&TaskKind::short_context));
  RequireEffect(command, any(&TaskKind::reference), {"--reference"}, TasksThat(&TaskKind::reference));
  const bool compares = any(&TaskKind::compares);
  if (compares && plan.empty() && command.count("--reference") == 0 && command.count("--cache") == 0)
    throw CLI::ValidationError("--tasks", TasksThat(&TaskKind::compares) +
                                              ": got the model compared with itself; try a --plan, or --reference with "
                                              "the checkpoint that MODEL was made from");
}

// Checked before anything runs.
void CheckKeys(const std::vector<TaskSpec>& specs, const EvalArguments& options) {
  if (options.breakdown.by.empty()) return;
  for (const TaskSpec& spec : specs) {
    if (spec.kind->keys == nullptr) continue;
    for (const ItemKeys& item : spec.kind->keys(spec.file, options.task.windows))
      RequireKeys(item.where, item.keys, options.breakdown);
  }
}

// In 80 columns, each line by itself.
std::string Folded(const std::string& text) {
  std::istringstream lines(text);
  std::string folded;
  for (std::string line; std::getline(lines, line);) folded += Paragraphs(line);
  return folded;
}

// Runs the tasks and prints the line of each, and below the last what errors are. Where files are asked for, a reader
// of the lines that goes away costs none of them: what kept a line from being printed is returned.
std::exception_ptr RunTasks(const std::vector<Task>& tasks, const EvalArguments& options, Evaluation& evaluation) {
  const bool to_files = !(options.json + options.records + options.csv).empty();
  if (to_files) std::signal(SIGPIPE, SIG_IGN);
  std::exception_ptr unprinted;
  bool errors = false;
  for (const Task& task : tasks) {
    std::string line = Folded(evaluation.Run(task, ProgressLine(task.spec.Name()).Callback()));
    errors = errors || line.contains("+/-") || line.contains('[');
    if (errors && &task == &tasks.back()) line += "+/- one standard error; [low, high] 95 %\n";
    if (!PrintsTables(options.json) || unprinted) continue;
    try {
      PrintText("{}", line);
    } catch (const Error&) {
      if (!to_files) throw;
      unprinted = std::current_exception();
    }
  }
  return unprinted;
}

void Run(const CLI::App& command, EvalArguments& options) {
  const std::vector<TaskSpec> specs = ParseTasks(options.tasks);
  const Plan plan = Plan::Parse(options.plan);
  std::vector<std::string> inputs{options.model, options.stats, options.task.reference, options.task.other_tower};
  for (const TaskSpec& spec : specs) inputs.push_back(spec.file);
  const std::vector<AtomicFile> claims = ClaimFiles(
      inputs, {{options.json, JsonWith("tare.eval/")}, {options.records, "\"task\":\""}, {options.csv, "task,"}});
  CheckEffects(command, plan, specs, options);
  CheckKeys(specs, options);
  Model model(options.model, options.machine.Apply());
  PlanRun run(plan, options.carrying, ModelSitesOf(model), StaticSourceOf(options.stats, model.files()), options.cache);
  CheckCache(specs, run.cache());
  Evaluation evaluation(model, run, options.task.windows);
  evaluation.BreakDownBy(options.breakdown);
  const std::exception_ptr unprinted = RunTasks(ReadTasks(specs, model, options.task), options, evaluation);
  WriteJson(options.json, evaluation.json());
  if (!options.records.empty()) WriteFileAtomically(options.records, evaluation.records());
  if (!options.csv.empty()) WriteFileAtomically(options.csv, evaluation.csv());
  if (unprinted) std::rethrow_exception(unprinted);
}

}  // namespace

void AddEval(CLI::App& app) {
  const auto [command, options] =
      NewCommand<EvalArguments>(app, "eval", "measure a model under a plan: perplexity, accuracy, KL divergence", Run);
  AddModel(command, options.model);
  Group(command, "How the model runs");
  AddPlanAndHow(command, options.plan, options.carrying, options.stats);
  AddCacheOption(command, options.cache);
  Group(command, "What to measure");
  AddTasksOption(command, options.tasks);
  CLI::Option* const by =
      AddList(command, "--by KEY,...", options.breakdown.by,
              "accuracies by keys of the items, the last one across: depth,length; texts: position");
  Add(command, "--over KEY", options.breakdown.over, "how accuracies of --by spread over this key, e.g. seed")
      ->needs(by);
  AddWindowOptions(command, options.task.windows);
  AddStrideOption(command, options.task.windows);
  Group(command, "Output");
  AddJson(command, options.json);
  Add(command, "--records FILE", options.records, "one JSON line per item or document");
  Add(command, "--csv FILE", options.csv, "the values of --by")->needs(by);
  AddOptionsOfTasks(command, options.task.windows, options.task.answers);
  Add(command, "--reference MODEL", options.task.reference,
      "divergence: what to compare with; longppl: what chooses tokens (default: MODEL, unquantized)");
  Add(command, "--other-tower MODEL", options.task.other_tower,
      "zero_shot, retrieval: the other tower of CLIP (default: the folder beside MODEL)");
  options.machine.AddTo(command, AddHashAgain);
}

}  // namespace tare
