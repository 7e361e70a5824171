// SPDX-License-Identifier: Apache-2.0
// Accuracies grouped by keys of the items (choice_items.h): needles found by depth and length, labels by the number of
// examples. Each has a 95 % interval (experiments/significance/accuracy.h): Wilson's, and where items share samples
// (samples.h) the one over those.
//
// Also their spread over the values of one key, such as the order of examples: the best, the worst, the sample standard
// deviation. Accuracies of equally good orders differ by chance too; if all orders have the same items, matched by the
// key "sample", Cochran's Q gives the probability of such a spread (Biometrika 37, 1950): of b samples under k orders
// with sums L_i of a sample, G_j of an order and N of all,
//
//   Q = k (k - 1) sum_j (G_j - N / k)^2 / sum_i L_i (k - L_i)
//
// is near chi-squared of k - 1 degrees of freedom. Samples that no order changes do not count; with fewer than 24
// outcomes of the others (his rule) there is no p.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/tasks/task.h"
#include "quant/file/json_value.h"

namespace tare {

struct Breakdown {
  std::vector<std::string> by;  // keys
  std::string over;             // the key of spreads, or empty

  // Of texts, and no key of items.
  bool ByPosition() const { return by == std::vector<std::string>{"position"}; }
};

// Throws Error where the keys of an item are not among its own; `where` begins the message.
void RequireKeys(const std::string& where, const nlohmann::ordered_json& keys, const Breakdown& breakdown);
bool HasItems(const TaskKind& kind);

// "by": of each group in the order of its keys' values {"depth", "length", "n", "acc", "acc_low", "acc_high", ...,
// "samples"}; where there is an `over`, "spread": {"shots", "seeds" (how many values), "n" (items of each), "acc_best",
// "acc_worst", "acc_sd", "acc_p" (null where there is none), ...}. Throws Error where an item lacks a key, and of a
// task without records.
nlohmann::ordered_json BreakDown(const std::string& task, const TaskResult& result, const TaskKind& kind,
                                 const Breakdown& breakdown);

// For people: the kind's first accuracy, the last key's values side by side.
std::string BreakdownTable(const nlohmann::ordered_json& broken_down, const TaskKind& kind, const Breakdown& breakdown);
// {"task", "depth", "length", "n", "acc", "acc_low", "acc_high", ..., "samples"} of every group.
std::vector<Json> BreakdownRows(const std::string& task, const Json& broken_down);

// What Q comes to, nothing where it is not near its law. outcomes [orders][samples]
std::optional<double> CochranP(const std::vector<std::string>& outcomes);

}  // namespace tare
