// SPDX-License-Identifier: Apache-2.0
// Runs tasks on a model under a plan, as `tare eval` shows them: JSON (tare.eval/1), a line per task for people, and
// the records of items.
#pragma once

#include <string>
#include <vector>

#include "experiments/table/table.h"
#include "experiments/tasks/groups.h"
#include "experiments/tasks/task.h"
#include "quant/file/json.h"

namespace tare {

class Evaluation {
 public:
  // The JSON says how every kind of task uses the windows, because figures depend on them.
  Evaluation(Model& model, PlanRun& run, const WindowOptions& windows, TaskKinds kinds = AllTasks());

  // Also groups the accuracies of each later task by these keys of its items, in JSON, in the table below its line, and
  // in csv().
  void BreakDownBy(Breakdown breakdown) { breakdown_ = std::move(breakdown); }

  // Returns a line for each figure, the last "choice:needles-4             acc 0.2500 +/- 0.0693   40 items", and below
  // them how it was measured, "  2 windows of 512, stride 511, each after <s>: 1022 tokens scored".
  std::string Run(const Task& task, const Progress& progress);

  const Json& json() const { return json_; }
  // Empty without a breakdown.
  std::string csv() const { return rows_.empty() ? "" : TableCsv(TableOf(rows_)); }
  const std::string& records() const { return records_; }  // one JSON line each, {"task", ...}

 private:
  Model& model_;
  PlanRun& run_;
  Json json_;
  Breakdown breakdown_;
  std::string records_;
  std::vector<Json> rows_;  // for csv()
};

// Shows the result of a text task by the number of context tokens, from a list of {"first", "last", "tokens", FIGURE,
// FIGURE_stderr, ...}. For people: a line a range, the figures with their errors.
std::string PositionTable(const Json& ranges);
// {"task", "first", "last", "tokens", "figure", "value", "stderr"} for each figure of each range.
std::vector<Json> PositionRows(const std::string& task, const Json& ranges);

}  // namespace tare
