// SPDX-License-Identifier: Apache-2.0
// A task as the command line names it, `perplexity=heldout.txt` or `choice=needles-4.jsonl`, run on a model under a
// plan. Results name it after its file: `perplexity:heldout`, `choice:needles-4`. A kind of task is fully described by
// its record, in the task's own source; one table lists the records, and no other code depends on a task's kind.
#pragma once

#include <algorithm>
#include <concepts>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include "quant/file/json.h"

#include "experiments/model/plan_run.h"
#include "experiments/passes/sequences.h"
#include "experiments/significance/inference.h"
#include "experiments/significance/mean_error.h"

namespace tare {

// A run's result: a flat object, as in tare.eval/1 and in a sweep's cells, and a record per item, if any.
struct TaskResult {
  Json figures;
  std::vector<Json> records;
  // For a task that another names as `compared`: the other task's figures, from the same passes. Null: none.
  Json of_text = {};
};

// Keys for the parts of a mean in a result, for comparisons paired by window.
struct WindowKeys {
  const char* losses;  // sums
  const char* counts = "window_tokens";
  Units kind = Units::kOfText;
};
// The keys of samples, images or documents instead, which are independent.
constexpr WindowKeys OfSamples(const char* sums, const char* counts = "sample_items") {
  return {.losses = sums, .counts = counts, .kind = Units::kIndependent};
}

// The keys of one figure in a result, and its format.
struct FigureKeys {
  const char* name;                // also the value's key: "acc"
  const char* error = nullptr;     // standard error, or none: of items as recorded, of windows from these
  const char* outcomes = nullptr;  // of the items in order, '1' where right: what paired comparisons need; or none
  // The keys of windows; for outcomes, of samples, if items share some (BySample): these then pair comparisons.
  std::optional<WindowKeys> windows = std::nullopt;
  OfMean of_mean = OfMean::kItself;  // how the figure follows from the windows' mean
  const char* format = ".4f";        // of value and error in eval's line
  const char* in_tables = ".3f";  // the same in the tables of sweeps; null: only in table.csv, which has every figure
  const char* what = nullptr;     // what it is, where its name says too little in a table
  // The figure of an unchanged model, which bounds it (0 of a divergence): a change from it to one side needs no test.
  std::optional<double> of_same = std::nullopt;
};

inline constexpr int64_t kAnswerTokens = 128;  // of an answer at most, if neither its item nor an option says

// How answers are generated (tasks/choice.h), where the command line says more than their items.
struct AnswerOptions {
  int64_t tokens = 0;                 // at most; 0: what the item says
  std::optional<double> temperature;  // empty: the item's own, else 0, the likeliest token
  std::optional<double> top_p;        // empty: the item's own, else 1
  uint64_t seed = 1;                  // each item draws from one of its own, made from this one and its line
};

// A task's input besides its file.
struct TaskOptions {
  WindowOptions windows;
  std::filesystem::path reference;    // of divergence and longppl: the reference checkpoint; empty: the same model
  std::filesystem::path other_tower;  // for CLIP's tasks: the model that runs the other side of FILE
  AnswerOptions answers = {};         // for tasks that generate answers
};

// About how many tokens one run takes through the model, for the time left: where every sequence is run whole
// (PlanRun::SpansRows), and where those that begin alike share their beginning.
struct TaskSize {
  int64_t whole = 1, shared = 1;
};
TaskSize SizeOf(const std::vector<ScoredSequence>& sequences);

// A task with its input read and tokenized, to be run under many plans.
class RunTask {
 public:
  template <std::invocable<Model&, PlanRun&, const Progress&> Body>
  RunTask(Body body, TaskSize size = {}) : body_(std::move(body)), size_(size) {}

  TaskResult operator()(Model& model, PlanRun& run, const Progress& progress) const {
    return body_(model, run, progress);
  }
  int64_t TokensUnder(const PlanRun& run) const { return run.SpansRows() ? size_.whole : size_.shared; }

 private:
  std::move_only_function<TaskResult(Model& model, PlanRun& run, const Progress& progress) const> body_;
  TaskSize size_;
};

// The keys that items are grouped by; `where`, the item's file and line, starts messages.
struct ItemKeys {
  std::string where;
  Json keys;
};
// The keys of a file's items that the options take, as `kLoad` reads them.
template <auto kLoad>
std::vector<ItemKeys> KeysOfItems(const std::filesystem::path& file, const WindowOptions& windows) {
  std::vector<ItemKeys> keys;
  for (const auto& item : kLoad(file, static_cast<size_t>(windows.limit), windows.from))
    keys.push_back({item.where, item.keys});
  return keys;
}

struct TaskKind {
  std::string_view name;       // in NAME=FILE and NAME:FILE
  std::string_view file;       // what FILE is, for help and messages
  std::string_view what = {};  // what is measured, for help
  // Reads the task. Its limit counts windows or items. Throws Error.
  RunTask (*read)(const std::filesystem::path& file, const Model& model, const TaskOptions& options);
  // One is the task's primary one, on which it is judged (Figures::Primary): of all figures only primary ones are
  // hypotheses of Holm's family, with stars; the others have intervals.
  std::span<const FigureKeys> figures;
  const char* count = "tokens";  // key of the number of tokens or items behind the figures
  const char* unit = "token";    // what it counts, in the singular
  // The settings that the figures depend on besides model, plan, file and limit; null if nothing.
  Json (*convention)(const WindowOptions& windows) = nullptr;
  // How answers are generated, on which their figures depend; null of tasks without.
  Json (*answers)(const AnswerOptions& options) = nullptr;
  // How a result was measured, in one line for people. Throws if an older version did not record it. Null: nothing.
  std::string (*how)(const Json& result) = nullptr;
  const char* by_position = nullptr;  // key of a list by position (tasks/evaluation.h), or none
  // The keys of the file's items that the options take; breakdowns check them before anything runs. Null: no keys.
  std::vector<ItemKeys> (*keys)(const std::filesystem::path& file, const WindowOptions& windows) = nullptr;
  bool short_context = false;          // takes WindowOptions::short_context
  bool reference = false;              // takes TaskOptions::reference
  bool compares = false;               // with it; then there is nothing to measure if that is the same model
  const TaskKind* compared = nullptr;  // the task that compares the same file with a reference, or none
  bool of_documents = false;           // each with a record, though without outcomes
  // The models that it is for: language models, CLIP's towers, classifiers of images.
  bool of_texts = true, of_towers = false, of_images = false;
  // The second model that the task runs, if any.
  std::filesystem::path (*beside)(const Model& model, const TaskOptions& options) = nullptr;
};

struct Figure {
  FigureKeys keys;
  double value = 0;
  std::optional<double> error;
  std::string outcomes;
  WindowLosses windows;  // empty if the result does not have them

  int64_t Right() const { return std::ranges::count(outcomes, '1'); }
  std::optional<Interval> OfItems() const;  // the 95 % interval of an accuracy; empty for other figures
  // That of a perplexity: e to the ends of its mean loss's; empty for other figures, and of too few windows.
  std::optional<Interval> OfWindows() const;
};
struct Figures {
  std::vector<Figure> list;
  int64_t count = 0;
  std::string reported = {};  // of several accuracies the one that figures and findings report ("acc_norm"), or none

  // The index of the figure that judges the task: the accuracy that is reported, else the first figure.
  size_t Primary() const;
  // Whether figures and findings report this figure; tables have all.
  bool Reports(std::string_view name) const;
};
// Empty if the result lacks one of the kind's figures. Windows may be missing, because older results have none.
std::optional<Figures> ReadFigures(const Json& result, const TaskKind& kind);
std::string HowMeasured(const Json& result, const TaskKind& kind);  // "" if the result does not record it
// For people: that there are too few windows or samples for the figures' errors, and what to do; else "".
std::string WhyNoErrors(const Figures& figures);
// "0.710 +/- 0.046"; with few right or wrong items, or items that share samples, "1.00 [0.44, 1.00]" (OfItems).
std::string FigureText(const Figure& figure, const char* format);

using TaskKinds = std::span<const TaskKind* const>;
TaskKinds AllTasks();
// The kind of a task by its name in results, "choice:needles-4"; null if no kind has it.
const TaskKind* KindNamed(std::string_view task);
// The named figure of such a task; null if tables do not show it.
const FigureKeys* ShownFigure(std::string_view task, std::string_view name);
// "perplexity=TEXT, choice=ITEMS.jsonl", separated by `between`.
std::string TaskUsage(std::string_view between, TaskKinds kinds = AllTasks());
// The names of the kinds for which `are` is true: "zero_shot or retrieval".
std::string TasksThat(const std::function<bool(const TaskKind&)>& are, TaskKinds kinds = AllTasks());

struct TaskSpec {
  const TaskKind* kind = nullptr;
  std::filesystem::path file;

  std::string Name() const;  // "choice:needles-4"
};

// Whether the task is on a long text, of which only windows are read (EncodeWindows).
bool IsReadInWindows(const TaskSpec& task, const ModelConfig& config, const WindowOptions& windows);

// Parses comma-separated tasks. Throws Error for an unknown kind, a missing file, or two tasks with one name.
std::vector<TaskSpec> ParseTasks(std::string_view text, TaskKinds kinds = AllTasks());

struct Task {
  TaskSpec spec;
  std::string sha256;       // of the file
  std::string other_tower;  // sha256 of the second model, or empty
  RunTask run;
};
// Throws Error if caches would drop keys in a way that none of these tasks supports.
void CheckCache(const std::vector<TaskSpec>& specs, const std::optional<CachePlan>& cache);
// Reads all tasks before the first one runs.
std::vector<Task> ReadTasks(const std::vector<TaskSpec>& specs, const Model& model, const TaskOptions& options);

// ---- Shares of items, for tasks

// Items with the same "sample" key share a text, examples or an answer (tare make) and are not independent. An item
// without it is its own sample. Per sample, by first occurrence: the sum of scores (ScoresOf outcomes: right items) and
// the number of items. items: indices into scores and records, whose "item" has the keys; without them, all.
WindowLosses BySample(const std::vector<Json>& records, const std::vector<double>& scores);
WindowLosses BySample(const std::vector<Json>& records, const std::vector<double>& scores,
                      std::span<const size_t> items);

// name and name_stderr: the share of '1's in outcomes, of independent items.
void AddShare(Json& figures, const std::string& name, const std::string& outcomes);

// Where items share samples, adds what the figures' windows name: per sample how many items, and how many are right.
void AddSamples(TaskResult& result, std::span<const FigureKeys> figures);

}  // namespace tare
