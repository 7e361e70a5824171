// SPDX-License-Identifier: Apache-2.0
// tare plan: what a plan's rules match, and whether it can be simulated, executed and stored.
#include "experiments/model/plan_run.h"
#include "tools/command.h"

namespace tare {
namespace {

struct PlanArguments {
  std::string rules, model, stats, json;
};

Json Describe(const CLI::App& command, const PlanArguments& options) {
  const Plan plan = Plan::Parse(options.rules);
  RequireEffect(command, plan.HasStaticScales(), {"--stats"}, "a rule with +static");
  if (options.model.empty()) return PlanJson(plan, AnyModel(plan), "any model with two maps (no MODEL was given)");
  const Model model(options.model);
  return PlanJson(plan, ModelSitesOf(model), model.Name(), StaticSourceOf(options.stats, model.files()));
}

void Run(const CLI::App& command, PlanArguments& options) {
  const std::vector<AtomicFile> claims =
      ClaimFiles({options.model, options.stats}, {{options.json, JsonWith("tare.plan/")}});
  const Json json = Describe(command, options);
  if (PrintsTables(options.json)) PrintText("{}", PlanText(json));
  WriteJson(options.json, json);
}

}  // namespace

void AddPlan(CLI::App& app) {
  const auto [command, options] =
      NewCommand<PlanArguments>(app, "plan", "show what the rules of a plan match, and whether it can run", Run);
  Add(command, "RULES", options.rules, "a plan, or a preset as int8 or sage2 (tare help plan)")
      ->transform(WithGridFiles)
      ->required();
  CLI::Option* const model = AddModel(command, options.model)->required(false);
  AddStatistics(command, options.stats)->needs(model);
  AddJson(command, options.json);
}

}  // namespace tare
