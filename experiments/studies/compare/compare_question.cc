// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/compare/compare_question.h"

#include <algorithm>

#include "experiments/model/config/config.h"
#include "experiments/tasks/divergence.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

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

// Cuts the text for the first model.
void RefuseUnusableWindows(const SweepOptions& options, int64_t attributed) {
  const std::filesystem::path& folder = options.models.front();
  const ModelConfig config = LoadConfig(folder);
  WindowOptions windows = options.windows;
  // The attribution takes no more of them.
  const TokenInput input = LoadTokenInput(TextOf(options.tasks), folder, config.vocabulary, windows.NeededOf(config));
  CutDisjoint(input, config, windows);
  windows.tokens = attributed;
  CutSequences(input, config, windows);
}

}  // namespace

void CompleteQuestion(SweepOptions& options) {
  options.tasks = WithCompared(options.tasks);
  AddBaseline(options.question);
}

std::filesystem::path TextOf(const std::vector<TaskSpec>& tasks) {
  const auto text = std::ranges::find_if(tasks, [](const TaskSpec& task) { return task.kind->convention != nullptr; });
  if (text == tasks.end()) FailUsage("--tasks: got no text, expected one to measure outliers on; try perplexity=TEXT");
  return text->file;
}

std::string AttributedPlan(const SweepOptions& options, const std::string& asked) {
  if (!asked.empty()) return asked == "none" ? "" : asked;
  const SweepQuestion& question = options.question;
  const int fewest = question.bits.empty() ? 16 : std::ranges::min(question.bits);
  if (!question.plans.empty() || !question.formats.empty() || options.cache || fewest == 16) return "";
  return Formatted("int{}", fewest);
}

std::vector<ModelAttribution> AskBoth(const SweepOptions& compare, const std::string& plan, int64_t tokens) {
  std::vector<ModelAttribution> both;
  for (size_t i = 0; i < 2 && !plan.empty(); ++i) {
    SweepOptions sweep = compare;
    sweep.models = {compare.models.at(i)};
    if (!compare.statistics.empty()) sweep.statistics = {compare.statistics.at(i)};
    sweep.folder = compare.folder / (i == 0 ? "attribution-A" : "attribution-B");
    sweep.question = {};
    sweep.carrying = Carrying::kSimulated;
    sweep.tasks = {{&kDivergenceTask, TextOf(compare.tasks)}};
    sweep.windows.tokens = tokens;
    const AttributionQuestion question = AskAttribution(sweep, plan, "site", PartCosts::kAlone);
    both.push_back({std::move(sweep), question});
  }
  RefuseUnusableWindows(compare, tokens);
  return both;
}

}  // namespace tare
