// SPDX-License-Identifier: Apache-2.0
// Cells, attributions and pairs of figures, the loss of captured attention; questions, attributions, pairs; captured.
#include "experiments/studies/attribution/attribution.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <ranges>

#include "experiments/model/config/config.h"
#include "experiments/model/plan_run.h"
#include "experiments/plan/resolved_plan.h"
#include "quant/base/find_in.h"
#include "quant/base/message.h"

namespace tare {
namespace {

Comparison& Pointed(Comparison* c) { return *c; }

const SweepCell* Find(const std::vector<SweepCell>& cells, const std::string& task, const std::string& plan) {
  return FindWhere(cells, [&](const SweepCell& cell) { return cell.task == task && cell.Plan() == plan; });
}

// The cells of one task, by their plans.
struct Runs {
  const std::vector<SweepCell>& cells;
  const std::string& task;

  const SweepCell& Of(const std::string& plan) const {
    if (const SweepCell* const cell = Find(cells, task, plan)) return *cell;
    Fail("{} under {}: got no finished run, expected one; try tare attribute without --cells", task, plan);
  }
  const Figure* Of(const std::string& plan, size_t figure) const { return &Of(plan).figures.list[figure]; }
};

Attribution OfFigure(const Runs& runs, size_t i, const Plan& plan, const std::vector<PlanPart>& parts,
                     PartCosts costs) {
  const Figure *const exact = runs.Of("f32", i), *const whole = runs.Of(plan.canonical(), i);
  Attribution a{.task = runs.task,
                .figure = exact->keys,
                .baseline = exact->value,
                .whole = whole->value,
                .change = Compare({exact, whole}, {-1, 1})};
  std::vector<const Figure*> all{exact};
  std::vector<double> sum{-static_cast<double>(parts.size())};
  for (const PlanPart& part : parts) {
    const Figure* const alone = runs.Of(part.alone.canonical(), i);
    PartEffect& effect = a.parts.emplace_back(part, Compare({exact, alone}, {-1, 1}), std::nullopt);
    if (costs == PartCosts::kAloneAndTakenOut)
      effect.taken_out = Compare({runs.Of(part.without.canonical(), i), whole}, {-1, 1});
    all.push_back(alone);
    sum.push_back(1);
  }
  a.sum = Compare(all, sum);
  auto left_over = sum | std::views::transform(std::negate()) | std::ranges::to<std::vector>();
  left_over.front() -= 1;
  left_over.push_back(1);
  all.push_back(whole);
  a.left_over = Compare(all, left_over);
  std::ranges::stable_sort(a.parts, std::greater{}, [](const PartEffect& p) { return std::abs(p.alone.value); });
  return a;
}

// One figure of one model's runs of one task.
struct FigureRuns {
  const AttributedModel& model;
  const Attribution& of;

  const Figure* Under(const std::string& plan) const {
    const SweepCell& cell = Runs{model.cells, of.task}.Of(plan);
    return FindIn(cell.figures.list, std::string_view(of.figure.name), [](const Figure& f) { return f.keys.name; });
  }
  const PartEffect* Part(const std::string& name) const {
    return FindIn(of.parts, name, [](const PartEffect& p) { return p.part.name; });
  }
};

// Plans may be spelled differently in the two models, because each part belongs to its own model.
Comparison Difference(const FigureRuns& first, const std::string& first_plan, const FigureRuns& second,
                      const std::string& second_plan) {
  return Compare({first.Under("f32"), first.Under(first_plan), second.Under("f32"), second.Under(second_plan)},
                 {1, -1, -1, 1});
}

PartPair PairPart(const std::string& name, const FigureRuns& first, const FigureRuns& second) {
  const PartEffect *const a = first.Part(name), *const b = second.Part(name);
  PartPair pair{.part = name, .first = {}, .second = {}, .difference = {}};
  if (a != nullptr) pair.first = a->alone.value;
  if (b != nullptr) pair.second = b->alone.value;
  if (a != nullptr && b != nullptr)
    pair.difference = Difference(first, a->part.alone.canonical(), second, b->part.alone.canonical());
  return pair;
}

AttributionPair PairFigure(const FigureRuns& first, const FigureRuns& second, const Plan& plan) {
  AttributionPair pair{.task = first.of.task,
                       .figure = first.of.figure,
                       .whole = {.part = "",
                                 .first = first.of.change.value,
                                 .second = second.of.change.value,
                                 .difference = Difference(first, plan.canonical(), second, plan.canonical())}};
  for (const PartEffect& p : first.of.parts) pair.parts.push_back(PairPart(p.part.name, first, second));
  for (const PartEffect& p : second.of.parts) {
    if (first.Part(p.part.name) == nullptr) pair.parts.push_back(PairPart(p.part.name, first, second));
  }
  std::ranges::stable_sort(pair.parts, std::greater(), [](const PartPair& p) {
    return std::max(std::abs(p.first.value_or(0)), std::abs(p.second.value_or(0)));
  });
  return pair;
}

constexpr FigureKeys kNmse{.name = "nmse",
                           .windows = WindowKeys{"errors", "squares", Units::kIndependent},
                           .in_tables = ".2e",
                           .of_same = 0.0};

}  // namespace

AttributionQuestion AskAttribution(SweepOptions& options, const std::string& plan, const std::string& by,
                                   PartCosts costs) {
  AttributionQuestion question{.plan = Plan::Parse(plan), .by = by, .parts = {}, .costs = costs};
  question.parts = PartsOf(question.plan, ParseGrain(by), ModelSitesOf(LoadConfig(options.models.at(0))));
  options.question.plans = AttributionPlans(question.plan, question.parts, costs);
  options.study = "attribute";
  return question;
}

std::vector<std::string> AttributionPlans(const Plan& plan, const std::vector<PlanPart>& parts, PartCosts costs) {
  std::vector<std::string> plans{"f32", plan.canonical()};
  for (const PlanPart& part : parts) plans.push_back(part.alone.canonical());
  if (costs == PartCosts::kAlone) return plans;
  for (const PlanPart& part : parts) plans.push_back(part.without.canonical());
  return plans;
}

std::vector<Attribution> Attribute(const std::vector<SweepCell>& cells, const Plan& plan,
                                   const std::vector<PlanPart>& parts, PartCosts costs) {
  std::vector<Attribution> all;
  for (const SweepCell& cell : cells) {
    if (std::ranges::contains(all, cell.task, &Attribution::task)) continue;
    const Runs runs{cells, cell.task};
    for (size_t i = 0; i < runs.Of("f32").figures.list.size(); ++i) {
      all.push_back(OfFigure(runs, i, plan, parts, costs));
      all.back().count = runs.Of("f32").figures.count;
      all.back().primary = i == runs.Of("f32").figures.Primary();
    }
  }
  std::vector<Comparison*> primary;
  for (Attribution& a : all) {
    a.sum.primary = a.primary;
    std::vector<Comparison*> of_figure{&a.change, &a.left_over};
    for (PartEffect& part : a.parts) {
      of_figure.push_back(&part.alone);
      if (part.taken_out) of_figure.push_back(&*part.taken_out);
    }
    for (Comparison* c : of_figure) c->primary = a.primary;
    if (a.primary) primary.insert(primary.end(), of_figure.begin(), of_figure.end());
  }
  AddHolm(primary | std::views::transform(Pointed));
  return all;
}

AttributedModel AttributeCells(const SweepOptions& options, const AttributionQuestion& question,
                               std::vector<SweepCell> cells) {
  std::erase_if(
      cells, [&](const SweepCell& cell) { return !std::ranges::contains(options.tasks, cell.task, &TaskSpec::Name); });
  const bool all_taken_out = std::ranges::all_of(options.tasks, [&](const TaskSpec& task) {
    return std::ranges::all_of(question.parts, [&](const PlanPart& part) {
      return Find(cells, task.Name(), part.without.canonical()) != nullptr;
    });
  });
  std::vector<Attribution> attributions =
      Attribute(cells, question.plan, question.parts, all_taken_out ? PartCosts::kAloneAndTakenOut : question.costs);
  return {.cells = std::move(cells), .attributions = std::move(attributions)};
}

std::vector<AttributionPair> PairAttributions(const AttributedModel& first, const AttributedModel& second,
                                              const Plan& plan) {
  std::vector<AttributionPair> pairs;
  for (const Attribution& a : first.attributions) {
    if (std::ranges::contains(pairs, a.task, &AttributionPair::task)) continue;
    const Attribution* const b = FindWhere(second.attributions, [&](const Attribution& other) {
      return other.task == a.task && std::string_view(other.figure.name) == a.figure.name;
    });
    if (b != nullptr) pairs.push_back(PairFigure({first, a}, {second, *b}, plan));
  }
  std::vector<Comparison*> differences;
  for (AttributionPair& pair : pairs) {
    differences.push_back(&*pair.whole.difference);
    for (PartPair& part : pair.parts) {
      if (part.difference) differences.push_back(&*part.difference);
    }
  }
  AddHolm(differences | std::views::transform(Pointed));
  return pairs;
}

Json ReadAs(const CapturedInput& input) {
  const auto heads = [&](Site site) { return input.sites.Heads(site); };
  const std::vector<OutputHead> table =
      HeadsNamed(input.layout.attention().heads, heads(Site::kQ), heads(Site::kK), heads(Site::kV));
  return {
      {"sequences", input.lengths.size()}, {"tokens", std::ranges::fold_left(input.lengths, int64_t{0}, std::plus())},
      {"heads", heads(Site::kQ)},          {"key_heads", heads(Site::kK)},
      {"value_heads", heads(Site::kV)},    {"width", input.sites.head_dim},
      {"maps", table.front().Maps()},      {"variant", input.layout.attention().variant.name}};
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
