// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/compare/compare_question.h"

#include <algorithm>

#include "experiments/model/config/config.h"
#include "experiments/observe/statistics_job.h"
#include "experiments/observe/statistics_report.h"
#include "experiments/passes/sequences.h"
#include "experiments/tasks/perplexity.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/atomic_file.h"
#include "quant/file/files_of_run.h"

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
  const TokenInput input = LoadInput(TextOf(options.tasks), folder, config, windows.NeededOf(config));
  CutDisjoint(input, config, windows);
  windows.tokens = attributed;
  CutSequences(input, config, windows);
}

std::filesystem::path LinesIn(const std::filesystem::path& folder) { return folder / "outliers.jsonl"; }

// All that the figures depend on.
Json KeyOf(const Model& model, const TokenInput& input, const SweepOptions& options) {
  const WindowOptions& windows = options.windows;
  Json key{{"weights", model.files().ContentHash()},
           {"input", input.sha256},
           {"window", windows.window},
           {"tokens", windows.tokens},
           {"limit", windows.limit},
           {"skip_first", kSkipFirst},
           {"math", options.math == Math::kBf16 ? "bf16" : "f32"}};
  if (windows.TakesPart()) key["from"] = Name(windows.from);
  if (input.in_windows) key["windows_begin"] = "lines";
  for (const auto& [name, hash] : ModelFileHashes(model.folder())) key[name] = hash;
  return key;
}

// The result of an earlier run; null if it was another measurement, which a notice says.
Json Measured(const RecordLines& lines, size_t model, const Json& key) {
  const auto found = std::ranges::find(lines.records, model + 1, &Record::number);
  if (found == lines.records.end()) return {};
  const Json& earlier = found->object["key"];
  if (earlier == key) return found->object["figures"];
  const auto items = key.items();
  const auto other =
      std::ranges::find_if(items, [&](const auto& item) { return earlier.value(item.key(), Json()) != item.value(); });
  Notice(Formatted("{}: line {} differs in {} and is replaced; use another --out to keep both", lines.path.string(),
                   model + 1, other == items.end() ? "the part of the input" : other.key()));
  return {};
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

RecordLines EarlierOutliers(const SweepOptions& options) {
  TakeForOwn(LinesIn(options.folder));
  RecordLines earlier = ReadRecords(LinesIn(options.folder), OutlierRecords());
  if (!earlier.damaged.empty()) Notice(DamageText(earlier) + "; what was there is measured again");
  return earlier;
}

std::vector<Json> OutliersOf(const SweepOptions& options, const RecordLines& earlier, const CellStarting& starting) {
  std::vector<Json> models;
  std::string lines;
  for (const std::filesystem::path& folder : options.models) {
    Model model(folder, options.math);
    const TokenInput input = LoadModelInput(TextOf(options.tasks), model, options.windows.NeededOf(model.config()));
    const Json key = KeyOf(model, input, options);
    Json figures = Measured(earlier, models.size(), key);
    if (figures.is_null()) {
      const StatisticsSet set = CollectStatistics(
          model, input, CutDisjoint(input, model.config(), options.windows), {.sites = kOutlierSites}, "", {},
          starting(model.Name() + " outliers", std::ssize(options.models) - std::ssize(models) - 1));
      figures = OutlierJson(set, model.config(), model.Name());
    }
    lines += OutlierLine(key, figures) + "\n";
    models.push_back(std::move(figures));
  }
  WriteFileAtomically(LinesIn(options.folder), lines);
  return models;
}

}  // namespace tare
