// SPDX-License-Identifier: Apache-2.0
// Runs tasks on a model under a plan, as `tare eval` shows them: JSON (tare.eval/1), a line per task for people, and
// the records of items.
#pragma once

#include <string>

#include "experiments/table/table.h"
#include "experiments/tasks/groups.h"
#include "experiments/tasks/task.h"

namespace tare {

class Evaluation {
 public:
  // Figures depend on the windows, so the JSON says how every kind of task takes them.
  Evaluation(Model& model, PlanRun& run, const WindowOptions& windows, TaskKinds kinds = AllTasks());

  // Accuracies of every task that is run from now on by these keys of its items, in JSON, in the table below its line,
  // and in csv().
  void BreakDownBy(Breakdown breakdown) { breakdown_ = std::move(breakdown); }

  // Returns the task's line, "choice:needles-4             acc 0.2500 +/- 0.0693   40 items", and below it how it was
  // measured, "  2 windows of 512, stride 511, each after <s>: 1022 tokens scored".
  std::string Run(const Task& task, const Progress& progress);

  const nlohmann::ordered_json& json() const { return json_; }
  // Empty where nothing was broken down.
  std::string csv() const { return rows_.empty() ? "" : TableCsv(TableOf(rows_)); }
  const std::string& records() const { return records_; }  // a JSON line each, {"task", ...}

 private:
  Model& model_;
  PlanRun& run_;
  nlohmann::ordered_json json_;
  Breakdown breakdown_;
  std::string records_;
  std::vector<Json> rows_;  // of csv()
};

}  // namespace tare
