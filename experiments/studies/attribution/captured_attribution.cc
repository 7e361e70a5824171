// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/captured_attribution.h"

#include <deque>
#include <functional>
#include <map>

#include "experiments/observe/captured/captured_layer.h"
#include "experiments/plan/resolved_plan.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr FigureKeys kNmse{.name = "nmse",
                           .windows = WindowKeys{"errors", "squares", Units::kIndependent},
                           .in_tables = ".2e",
                           .of_same = 0.0};

}  // namespace

Json ReadAs(const CapturedInput& input) {
  const auto heads = [&](Site site) { return input.sites.Heads(site); };
  const std::vector<OutputHead> table =
      HeadsNamed(input.layout.attention().heads, heads(Site::kQ), heads(Site::kK), heads(Site::kV));
  return {
      {"sequences", input.lengths.size()}, {"tokens", std::ranges::fold_left(input.lengths, int64_t{0}, std::plus())},
      {"heads", heads(Site::kQ)},          {"key_heads", heads(Site::kK)},
      {"value_heads", heads(Site::kV)},    {"width", input.sites.head_dim},
      {"maps", table.front().Maps()}};
}

std::vector<Attribution> AttributeCaptured(const CapturedInput& input, const Plan& plan, const Progress& progress) {
  RequireRules(plan);
  std::vector<PlanPart> parts;
  std::vector<std::string> plans;
  std::deque<SimulatedAttention> runs;              // of the plans, f32 first
  std::map<int, std::vector<WindowLosses>> losses;  // by layer, of the runs
  ForCapturedLayers(input, progress, [&](CapturedLayer& attention, const std::vector<int>& layers) {
    if (runs.empty()) {
      const ModelSites sites = AttentionSites(attention.problem(), layers);
      const ResolvedPlan whole(plan, sites, Carrying::kSimulated);  // refuses rules that no part has
      parts = PartsOf(plan, {.site = true}, sites, 1);
      plans = AttributionPlans(plan, parts, PartCosts::kAloneAndTakenOut);
      for (const std::string& text : plans) runs.emplace_back(Plan::Parse(text), sites);
    }
    std::vector<WindowLosses>& of_layer = losses[attention.layer()];
    of_layer.resize(runs.size());
    for (size_t r = 0; r < runs.size(); ++r) attention.AddLosses(attention.Under(runs[r]), of_layer[r]);
  });
  std::vector<SweepCell> cells;
  for (const auto& [layer, of_runs] : losses) {
    for (size_t r = 0; r < runs.size(); ++r) {
      SweepCell& cell = cells.emplace_back();
      cell.task = Formatted("head_out.{}", layer);
      cell.key = {{"plan", plans[r]}};
      cell.figures = {.list = {{kNmse, MeanOf(of_runs[r], cell.task), {}, "", of_runs[r]}},
                      .count = std::ssize(of_runs[r].sums)};
    }
  }
  return Attribute(cells, plan, parts, PartCosts::kAloneAndTakenOut);
}

std::map<int, double> ExecutedLosses(const CapturedInput& input, const Plan& plan, const Progress& progress) {
  RequireRules(plan);
  std::map<int, WindowLosses> sums;
  ForCapturedLayers(input, progress, [&](CapturedLayer& attention, const std::vector<int>&) {
    const ExecutedPlan executed = ExecutedPlanOfText("--executed", plan.canonical(), attention.problem().q.heads);
    attention.AddLosses(attention.Executed(executed), sums[attention.layer()]);
  });
  std::map<int, double> losses;
  for (const auto& [layer, of] : sums) losses[layer] = MeanOf(of, Formatted("head_out.{}", layer));
  return losses;
}

}  // namespace tare
