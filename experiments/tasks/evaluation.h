// SPDX-License-Identifier: Apache-2.0
// Runs tasks on a model under a plan for `tare eval`: JSON (tare.eval/1), lines, item records, grouped accuracies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/table/table.h"
#include "experiments/tasks/task.h"
#include "quant/file/json.h"

namespace tare {

// Accuracies by keys of items: needles by depth and length, labels by examples. Each has a 95 % interval
// (significance/inference.h): Wilson's, over samples where items share some (BySample).
//
// Also their spread over the values of one key, such as the order of examples: best, worst, sample standard deviation.
// Accuracies of equally good orders differ by chance too. If all orders have the same items, matched by the key
// "sample", Cochran's Q gives the probability of such a spread (Biometrika 37, 1950). For b samples under k orders,
// with sums L_i per sample, G_j per order and N in all,
//
//   Q = k (k - 1) sum_j (G_j - N / k)^2 / sum_i L_i (k - L_i)
//
// is about chi-squared with k - 1 degrees. Samples alike in every order do not count; below 24 others (his rule), no p.
struct Breakdown {
  std::vector<std::string> by;  // keys
  std::string over;             // the key of spreads, or empty

  // Whether items are grouped by position in texts, instead of by keys.
  bool ByPosition() const { return by == std::vector<std::string>{"position"}; }
};

// Throws Error if an item lacks one of the keys; `where` starts the message.
void RequireKeys(const std::string& where, const Json& keys, const Breakdown& breakdown);
bool HasItems(const TaskKind& kind);

// "by": per group, sorted by keys' values, {"depth", "length", "n", "acc", "acc_low", "acc_high", ..., "samples"}; with
// an `over`, "spread": {"shots", "seeds" (its number of values), "n" (items of each), "acc_best", "acc_worst",
// "acc_sd", "acc_p" (or null), ...}. Throws Error if an item lacks a key, and for a task without records.
Json BreakDown(const std::string& task, const TaskResult& result, const TaskKind& kind, const Breakdown& breakdown);

// For people: the kind's first accuracy, with the last key's values side by side.
std::string BreakdownTable(const Json& broken_down, const TaskKind& kind, const Breakdown& breakdown);
// {"task", "depth", "length", "n", "acc", "acc_low", "acc_high", ..., "samples"} for every group.
std::vector<Json> BreakdownRows(const std::string& task, const Json& broken_down);

// The p of Q; empty if the approximation does not hold. outcomes [orders][samples]
std::optional<double> CochranP(const std::vector<std::string>& outcomes);

class Evaluation {
 public:
  // The JSON says how every kind of task uses the windows, because figures depend on them.
  Evaluation(Model& model, PlanRun& run, const WindowOptions& windows, TaskKinds kinds = AllTasks());

  // Also groups later tasks' accuracies by these keys of items, in JSON, in the table below the line, and in csv().
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
