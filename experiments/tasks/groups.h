// SPDX-License-Identifier: Apache-2.0
// Accuracies grouped by keys of the items (choice_items.h): needles found by depth and length, labels by the number of
// examples. Each has a 95 % interval (experiments/significance/inference.h): Wilson's, and where items share samples
// (BySample) the one over those.
//
// Also their spread over the values of one key, such as the order of examples: best, worst, sample standard deviation.
// Accuracies of equally good orders differ by chance too. If all orders have the same items, matched by the key
// "sample", Cochran's Q gives the probability of such a spread (Biometrika 37, 1950). For b samples under k orders,
// with sums L_i per sample, G_j per order and N in all,
//
//   Q = k (k - 1) sum_j (G_j - N / k)^2 / sum_i L_i (k - L_i)
//
// is approximately chi-squared with k - 1 degrees of freedom. Samples with the same outcome in every order do not
// count; with fewer than 24 other outcomes (his rule) there is no p.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/significance/mean_error.h"
#include "experiments/tasks/task.h"
#include "quant/file/json.h"

namespace tare {

// Items that share a draw: items with the same "sample" key share a text, examples or an answer (tare make) and are not
// independent. An item without the key is its own sample.
//
// Per sample, the number of right items ('1' in outcomes) and of all items, in the order in which samples first occur.
// items: indices into outcomes and into the records, whose "item" has the keys.
WindowLosses BySample(const std::vector<Json>& records, std::string_view outcomes, std::span<const size_t> items);
// As above, for scores [records]: their sum per sample, and the number of items.
WindowLosses BySample(const std::vector<Json>& records, const std::vector<double>& scores,
                      std::span<const size_t> items);

// name and name_stderr: the share of '1's in outcomes, of independent items.
void AddShare(Json& figures, const std::string& name, const std::string& outcomes);

// Where items share samples, adds what the figures' windows name: per sample how many items, and how many are right.
void AddSamples(TaskResult& result, std::span<const FigureKeys> figures);

struct Breakdown {
  std::vector<std::string> by;  // keys
  std::string over;             // the key of spreads, or empty

  // Whether items are grouped by position in texts, instead of by keys.
  bool ByPosition() const { return by == std::vector<std::string>{"position"}; }
};

// Throws Error if an item lacks one of the keys; `where` starts the message.
void RequireKeys(const std::string& where, const Json& keys, const Breakdown& breakdown);
bool HasItems(const TaskKind& kind);

// "by": for each group, sorted by its keys' values, {"depth", "length", "n", "acc", "acc_low", "acc_high", ...,
// "samples"}; with an `over`, "spread": {"shots", "seeds" (number of values), "n" (items of each), "acc_best",
// "acc_worst", "acc_sd", "acc_p" (null if there is none), ...}. Throws Error if an item lacks a key, and for a task
// without records.
Json BreakDown(const std::string& task, const TaskResult& result, const TaskKind& kind, const Breakdown& breakdown);

// For people: the kind's first accuracy, with the last key's values side by side.
std::string BreakdownTable(const Json& broken_down, const TaskKind& kind, const Breakdown& breakdown);
// {"task", "depth", "length", "n", "acc", "acc_low", "acc_high", ..., "samples"} for every group.
std::vector<Json> BreakdownRows(const std::string& task, const Json& broken_down);

// The p of Q; empty if the approximation does not hold. outcomes [orders][samples]
std::optional<double> CochranP(const std::vector<std::string>& outcomes);

}  // namespace tare
