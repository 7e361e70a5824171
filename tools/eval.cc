// SPDX-License-Identifier: Apache-2.0
// tare eval: a model's accuracy under a plan.
#include <format>
#include <memory>
#include <print>

#include <nlohmann/json.hpp>

#include "experiments/tasks/task.h"
#include "quant/file/atomic_file.h"
#include "tools/run_options.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string model, plan, stats, tasks, json, records;
  Carrying carrying = Carrying::kSimulated;
  WindowOptions windows;
  MachineOptions machine;
};

void Print(const std::string& task, const TaskResult& result) {
  if (const auto* p = std::get_if<PerplexityResult>(&result)) {
    std::println("{:<28} perplexity {:9.4f}   nll {:.5f} +/- {:.5f}   {} tokens", task, p->perplexity, p->nll,
                 p->nll_stderr, p->tokens);
  } else {
    const auto& c = std::get<ChoiceResult>(result);
    std::println("{:<28} acc {:.4f} +/- {:.4f}   acc_norm {:.4f} +/- {:.4f}   {} items", task, c.acc, c.acc_stderr,
                 c.acc_norm, c.acc_norm_stderr, c.n);
  }
}

void Run(const Options& options) {
  const std::vector<TaskSpec> specs = ParseTasks(options.tasks);
  Plan plan = Plan::Parse(options.plan);
  CheckWritable(options.json);
  CheckWritable(options.records);
  Model model(options.model, options.machine.Apply());
  PlanRun run(std::move(plan), options.carrying, model.config(), StaticSourceOf(options.stats, model.files()));
  Json json{{"schema", "tare.eval/1"},
            {"model", model.Name()},
            {"weights_sha256", model.files().ContentHash()},
            {"plan", run.plan().canonical()},
            {"plan_hash", run.plan().hash()},
            {"executed", options.carrying == Carrying::kExecuted},
            {"lookahead", run.LooksAhead()},
            {"math", options.machine.math},
            {"limit", options.windows.limit},
            {"perplexity_convention", Convention(options.windows)},
            {"tasks", Json::object()}};
  std::vector<Task> tasks;  // all of them read before the first runs
  for (const TaskSpec& spec : specs) tasks.emplace_back(spec, model, options.windows);
  std::string records;
  for (const Task& task : tasks) {
    const std::string name = task.spec().Name();
    const TaskResult result = task.Run(model, run, ProgressLine(name).Callback());
    json["tasks"][name] = ToJson(result);
    json["tasks"][name]["input_sha256"] = task.sha256();
    if (PrintsTables(options.json)) Print(name, result);
    if (const auto* choice = std::get_if<ChoiceResult>(&result)) {
      for (const ChoiceRecord& record : choice->records) records += ToJson(name, record).dump() + "\n";
    }
  }
  WriteJson(options.json, json);
  if (!options.records.empty()) WriteFileAtomically(options.records, records);
}

}  // namespace

void AddEval(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("eval", "accuracy under a plan: perplexity of a text, multiple choice");
  command->add_option("MODEL", options->model, "checkpoint folder")->required();
  command->add_option("--plan", options->plan, "what to quantize, for example attn_logits=int6/row; nothing: f32");
  AddExecutedFlag(*command, options->carrying);
  command->add_option("--stats", options->stats,
                      "statistics file of this model (tare stats --out), for rules with +static");
  command->add_option("--tasks", options->tasks, "perplexity=TEXT, choice=ITEMS.jsonl, with commas between")
      ->required();
  command->add_option("--json", options->json, "write JSON to a file, or - for standard output");
  command->add_option("--records", options->records, "write one JSON line an item of multiple choice to this file");
  AddWindowOptions(*command, options->windows);
  AddStrideOption(*command, options->windows);
  options->machine.AddTo(*command);
  command->footer(
      "Example:\n  tare eval experiments/pair/novels-standard --plan attn_logits=int4/row \\\n"
      "    --tasks perplexity=experiments/pair/heldout.txt,choice=experiments/pair/needles-4.jsonl --limit 40");
  command->callback([options] { Run(*options); });
}

}  // namespace tare
