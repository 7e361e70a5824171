// SPDX-License-Identifier: Apache-2.0
// A task as the command line names it, `perplexity=heldout.txt` or `choice=needles-4.jsonl`, run on a model under a
// plan. In results it is called after its file: `perplexity:heldout`, `choice:needles-4`. All there is to know of a
// kind of task is its record, in the task's own source; the records stand in one table, and nothing else tells kinds
// apart.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/model/plan_run.h"
#include "experiments/passes/sequences.h"
#include "experiments/significance/paired_runs.h"
#include "experiments/significance/shown.h"

namespace tare {

// What a run gives: one flat object, as tare.eval/1 and the cells of a sweep have it, and a record per item, if any.
struct TaskResult {
  nlohmann::ordered_json figures;
  std::vector<nlohmann::ordered_json> records;
};

// Keys of a mean's parts in a result, for comparisons paired by window.
struct WindowKeys {
  const char* losses;  // sums
  const char* counts;
};

// The keys of one figure in a result, and how it is shown.
struct FigureKeys {
  const char* name;                // of the value too: "acc"
  const char* error = nullptr;     // standard error, or none
  const char* outcomes = nullptr;  // of the items in order, '1' where right: what paired comparisons need; or none
  // Of a figure with outcomes: of samples, where items share them (tasks/samples.h); comparisons are paired by these
  // then.
  std::optional<WindowKeys> windows = std::nullopt;
  OfMean of_mean = OfMean::kItself;  // what the figure is of the windows' mean
  const char* format = ".4f";        // of value and error in eval's line
  const char* in_tables = ".3f";  // the same in the tables of sweeps; null: left to table.csv, which has every figure
};

// What tasks take beside their file.
struct TaskOptions {
  WindowOptions windows;
  std::filesystem::path reference;    // of divergence: the model to start from; empty: the same one
  std::filesystem::path other_tower;  // of CLIP's tasks: the model that the other side of FILE is run by
};

// A task whose input has been read and tokenized, to be run under many plans.
using RunTask = std::move_only_function<TaskResult(Model& model, PlanRun& run, const Progress& progress) const>;

// The keys that items are grouped by; `where`, the item's file and line, begins messages.
struct ItemKeys {
  std::string where;
  nlohmann::ordered_json keys;
};

struct TaskKind {
  std::string_view name;  // in NAME=FILE and NAME:FILE
  std::string_view file;  // what FILE is, for help and messages
  // `limit` counts windows or items. Throws Error.
  RunTask (*read)(const std::filesystem::path& file, const Model& model, const TaskOptions& options);
  std::span<const FigureKeys> figures;
  const char* count;  // key of how many tokens or items the figures were taken over
  const char* unit;   // what it counts, for people
  // What the figures depend on besides model, plan, file and limit; null where that is nothing.
  nlohmann::ordered_json (*convention)(const WindowOptions& windows) = nullptr;
  // How a result came about, in a line for people; throws where it is of a version that did not keep it. Null: nothing.
  std::string (*how)(const nlohmann::ordered_json& result) = nullptr;
  const char* by_position = nullptr;  // key of a list by position (tasks/positions.h), or none
  // The keys of the file's items, at most `limit` of them (0: all), which breakdowns check before anything runs. Null:
  // none.
  std::vector<ItemKeys> (*keys)(const std::filesystem::path& file, size_t limit) = nullptr;
  bool compares = false;  // with a reference: nothing to measure where that is the same model
  const TaskKind* compared =
      nullptr;             // the task that compares with a reference what this one measures of a file, or none
  bool of_towers = false;  // of CLIP's towers, which have no vocabulary logits, and of no other model
  // The second model that the task runs, if there is one.
  std::filesystem::path (*beside)(const Model& model, const TaskOptions& options) = nullptr;
};

struct Figure {
  FigureKeys keys;
  double value = 0;
  std::optional<double> error;
  std::string outcomes;
  WindowLosses windows;  // empty where the result does not have them

  int64_t Right() const { return std::ranges::count(outcomes, '1'); }
  // 95 %, of items that are right or wrong; nothing of other figures.
  std::optional<Interval> OfItems() const;
};
struct Figures {
  std::vector<Figure> list;
  int64_t count = 0;
};
// Nothing where the result lacks one of the kind's figures. Windows may be missing: older results have none.
std::optional<Figures> ReadFigures(const nlohmann::ordered_json& result, const TaskKind& kind);
// "" where the result does not say.
std::string HowMeasured(const nlohmann::ordered_json& result, const TaskKind& kind);
// "0.710 +/- 0.046"; of few items right or wrong, or items that share samples, "1.00 [0.44, 1.00]" (OfItems).
std::string FigureText(const Figure& figure, const char* format);

using TaskKinds = std::span<const TaskKind* const>;
TaskKinds AllTasks();
// "perplexity=TEXT, choice=ITEMS.jsonl" with ", " between.
std::string TaskUsage(std::string_view between, TaskKinds kinds = AllTasks());
// The names of the kinds that are so: "zero_shot or retrieval".
std::string TasksThat(const std::function<bool(const TaskKind&)>& are, TaskKinds kinds = AllTasks());

struct TaskSpec {
  const TaskKind* kind = nullptr;
  std::filesystem::path file;

  std::string Name() const;  // "choice:needles-4"
};

// Comma-separated tasks. Throws Error for an unknown kind, a missing file, or two tasks of one name.
std::vector<TaskSpec> ParseTasks(std::string_view text, TaskKinds kinds = AllTasks());

struct Task {
  TaskSpec spec;
  std::string sha256;       // of the file
  std::string other_tower;  // sha256 of the second model that the task runs, or empty
  RunTask run;
};
// Throws Error where caches would drop keys as no task of these can.
void CheckCache(const std::vector<TaskSpec>& specs, const std::optional<CachePlan>& cache);
// All of them, before the first runs.
std::vector<Task> ReadTasks(const std::vector<TaskSpec>& specs, const Model& model, const TaskOptions& options);

}  // namespace tare
