// SPDX-License-Identifier: Apache-2.0
// The table of tasks, an entry of --tasks, figures in results and as text, names of kinds, and the tasks of a run.
#include "experiments/tasks/task.h"

#include <set>

#include "experiments/tasks/choice.h"
#include "experiments/tasks/classify.h"
#include "experiments/tasks/contrast.h"
#include "experiments/tasks/perplexity.h"
#include "experiments/text/utf8.h"
#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/file/files_of_run.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

// Those that a model runs, and last what only logs of another program have.
constexpr const TaskKind* kTasks[] = {&kPerplexityTask, &kChoiceTask,    &kDivergenceTask,    &kZeroShotTask,
                                      &kClassifyTask,   &kImagenetTask,  &kLogLikelihoodTask, &kLongPerplexityTask,
                                      &kDocumentsTask,  &kRetrievalTask, &kGenerateTask,      &kMetricTask};

[[noreturn]] void FailForFile(const std::filesystem::path& file, std::string_view list) {
  if (std::filesystem::is_directory(file))
    FailUsage("--tasks: {}: got a folder, expected a file{}", file.string(),
              std::filesystem::exists(file / "config.json") ? "; is it MODEL, which has no option before it?" : "");
  FailUsage("--tasks: {}: no such file (a device does not count){}", file.string(),
            list.contains(',') ? "; a comma in a name is written twice" : "");
}

TaskSpec ParseTask(const std::string& text, std::string_view list, TaskKinds kinds) {
  const size_t equals = text.find('=');
  const auto kind = std::ranges::find(kinds, text.substr(0, equals), &TaskKind::name);
  const std::string file = std::filesystem::is_regular_file(text) ? "; try perplexity=" + text : "";
  if (kind == kinds.end()) FailUsage("--tasks: got '{}', expected {}{}", text, TaskUsage(" or ", kinds), file);
  if (equals == std::string::npos || equals + 1 == text.size())
    FailUsage("--tasks: '{}' names no file; expected {}=FILE", text, (*kind)->name);
  TaskSpec spec{*kind, FileOf(text.substr(equals + 1))};
  if (!spec.file.has_filename()) spec.file = spec.file.parent_path();  // of a folder "val/"
  const std::filesystem::file_status status = std::filesystem::status(spec.file);
  if (!is_regular_file(status) && !is_fifo(status) && !((*kind)->of_images && is_directory(status)))
    FailForFile(spec.file, list);
  RequireUtf8(spec.Name(), text + ": the file's name");
  return spec;
}

// False if they are present but no numbers, or unequally many. Older results have no losses for some figures.
bool ReadWindows(const Json& result, const WindowKeys& keys, WindowLosses& windows) {
  if (!result.contains(keys.losses)) return true;
  for (const char* key : {keys.losses, keys.counts}) {
    if (!result.contains(key) || !result[key].is_array() || !std::ranges::all_of(result[key], &Json::is_number))
      return false;
  }
  windows = {result[keys.losses].get<std::vector<double>>(), result[keys.counts].get<std::vector<double>>()};
  return windows.sums.size() == windows.counts.size();
}

// The hash of a tower's weights and configuration.
std::string HashOfTower(const std::filesystem::path& folder) {
  const Checkpoint tower(folder);
  const std::string hashes = tower.ContentHash() + tower.ConfigHash();
  return Sha256Hex(std::as_bytes(std::span(hashes)));
}

// A figure's mean over windows or samples.
PairedRuns WindowsOf(const Figure& figure, OfMean of_mean) {
  return {.counts = figure.windows.counts,
          .sums = {figure.windows.sums},
          .signs = {1},
          .of_mean = of_mean,
          .kind = figure.keys.windows->kind};
}

}  // namespace

std::optional<Figures> ReadFigures(const Json& result, const TaskKind& kind) {
  const auto is_number = [&](const char* key) { return result.contains(key) && result[key].is_number(); };
  const auto is_string = [&](const char* key) { return result.contains(key) && result[key].is_string(); };
  if (!is_number(kind.count)) return std::nullopt;
  Figures figures{.list = {}, .count = result[kind.count], .reported = {}};
  if (is_string("reported")) figures.reported = result["reported"];
  for (const FigureKeys& k : kind.figures) {
    // An infinite perplexity, which JSON cannot write, is null in files.
    const bool infinite = k.of_mean == OfMean::kExponential && result.contains(k.name) && result[k.name].is_null();
    if (!(is_number(k.name) || infinite) || (k.outcomes && !(is_string(k.outcomes) && is_number(k.error))))
      return std::nullopt;
    Figure& figure = figures.list.emplace_back(
        Figure{.keys = k, .value = infinite ? std::numeric_limits<double>::infinity() : result[k.name].get<double>()});
    if (k.outcomes) figure.outcomes = result[k.outcomes], figure.error = result[k.error];
    if (k.windows && !ReadWindows(result, *k.windows, figure.windows)) return std::nullopt;
    // Older results have errors as if tokens were independent, which are not read.
    if (k.error && !figure.windows.sums.empty())
      figure.error = PairedError(WindowsOf(figure, k.of_mean)).transform([](const MeanError& of) { return of.error; });
  }
  return figures;
}

size_t Figures::Primary() const {
  const auto found = std::ranges::find_if(list, [&](const Figure& figure) { return figure.keys.name == reported; });
  return found == list.end() ? 0 : static_cast<size_t>(found - list.begin());
}

bool Figures::Reports(std::string_view name) const {
  if (reported.empty() && name != "acc_norm") return true;  // of an older version: acc
  const auto has_outcomes = [&](const Figure& figure) { return name == figure.keys.name && figure.keys.outcomes; };
  return name == reported || std::ranges::none_of(list, has_outcomes);
}

std::string WhyNoErrors(const Figures& figures) {
  for (const Figure& figure : figures.list) {
    const size_t n = figure.windows.counts.size();
    if (n > 0 && n < kFewestUnits) return FewUnitsText(n, figure.keys.windows->kind);
  }
  return "";
}

std::string HowMeasured(const Json& result, const TaskKind& kind) try {
  return kind.how ? kind.how(result) : "";
} catch (const nlohmann::json::exception&) {
  return "";
}

std::optional<Interval> Figure::OfItems() const {
  if (outcomes.empty()) return std::nullopt;
  return windows.sums.empty() ? WilsonInterval(Right(), std::ssize(outcomes))
                              : ClusteredInterval(windows.sums, windows.counts);
}

std::optional<Interval> Figure::OfWindows() const {
  if (keys.of_mean != OfMean::kExponential || windows.sums.empty()) return std::nullopt;
  const PairedRuns losses = WindowsOf(*this, OfMean::kItself);
  const std::optional<MeanError> of_error = PairedError(losses);
  if (!of_error || !(of_error->error > 0)) return std::nullopt;
  const Interval of_mean = of_error->Around(Contrast(losses));
  return Interval{std::exp(of_mean.low), std::exp(of_mean.high)};
}

std::string FigureText(const Figure& figure, const char* format) {
  const int64_t n = std::ssize(figure.outcomes), right = figure.Right();
  if (n > 0 && (std::min(right, n - right) < kFewItems || !figure.windows.sums.empty()))
    return WithInterval(figure.value, *figure.OfItems(), format);
  return figure.error ? WithError(figure.value, *figure.error, format) : NumberText(figure.value, format);
}

TaskSize SizeOf(const std::vector<ScoredSequence>& sequences) {
  int64_t tokens = 0;
  for (const ScoredSequence& s : sequences) tokens += std::ssize(s.tokens);
  return {.whole = tokens, .shared = tokens};
}

TaskKinds AllTasks() { return TaskKinds(kTasks).first(std::size(kTasks) - 1); }

const TaskKind* KindNamed(std::string_view task) {
  const auto kind = std::ranges::find(kTasks, task.substr(0, task.find(':')), &TaskKind::name);
  return kind == std::end(kTasks) ? nullptr : *kind;
}

const FigureKeys* ShownFigure(std::string_view task, std::string_view name) {
  const TaskKind* const kind = KindNamed(task);
  if (kind == nullptr) return nullptr;
  return FindWhere(kind->figures, [&](const FigureKeys& k) { return name == k.name && k.in_tables != nullptr; });
}

std::string TaskUsage(std::string_view between, TaskKinds kinds) {
  return Listed(kinds, between, [](const TaskKind* kind) { return Formatted("{}={}", kind->name, kind->file); });
}

std::string TasksThat(const std::function<bool(const TaskKind&)>& are, TaskKinds kinds) {
  const auto chosen = [&](const TaskKind* kind) { return are(*kind); };
  return Listed(kinds | std::views::filter(chosen), " or ", &TaskKind::name);
}

std::string TaskSpec::Name() const { return Formatted("{}:{}", kind->name, file.stem().string()); }

bool IsReadInWindows(const TaskSpec& task, const ModelConfig& config, const WindowOptions& windows) {
  if (task.kind->convention == nullptr || task.kind->of_documents || HoldsIds(task.file) || is_directory(task.file))
    return false;
  return ReadInWindows(windows.NeededOf(config), file_size(task.file));
}

std::vector<TaskSpec> ParseTasks(std::string_view text, TaskKinds kinds) {
  std::vector<TaskSpec> specs;
  std::set<std::string> names;
  if (text.empty()) FailUsage("--tasks: got nothing, expected {}, separated by commas", TaskUsage(" or ", kinds));
  for (const std::string& part : SplitNames(text)) {
    specs.push_back(ParseTask(part, text, kinds));
    if (!names.insert(specs.back().Name()).second)
      FailUsage("--tasks: two tasks are called {}; try renaming a file", specs.back().Name());
  }
  return specs;
}

void CheckCache(const std::vector<TaskSpec>& specs, const std::optional<CachePlan>& cache) {
  const bool of_texts = std::ranges::any_of(specs, &TaskKind::convention, &TaskSpec::kind);
  if (cache && of_texts) CheckCacheOfTexts(*cache);
}

std::vector<Task> ReadTasks(const std::vector<TaskSpec>& specs, const Model& model, const TaskOptions& options) {
  std::vector<Task> tasks;
  const ModelConfig& config = model.config();
  const bool tower = config.projection > 0;
  const auto serves = [&](const TaskKind& kind) {
    return tower ? kind.of_towers : config.pools ? kind.of_images : kind.of_texts;
  };
  for (const TaskSpec& spec : specs) {
    const TaskKind& kind = *spec.kind;
    if (!serves(kind))
      FailUsage("--tasks: got {} for {}, a {}; expected a task of {}: {}", kind.name, model.Name(), config.family,
                tower          ? "CLIP's towers"
                : config.pools ? "classifiers of images"
                               : "language models",
                TasksThat(serves));
    const std::string other = kind.beside ? HashOfTower(kind.beside(model, options)) : "";
    tasks.push_back({spec, Sha256OfInput(spec.file), other, kind.read(spec.file, model, options)});
  }
  return tasks;
}

}  // namespace tare
