// SPDX-License-Identifier: Apache-2.0
// Lines of the samples_<task>_<date>.jsonl that lm-evaluation-harness writes with --log_samples (its
// loggers/evaluation_tracker.py): every request in full, whatever the task, its template and its examples. Requests are
// {"gen_args_0": {"arg_0": context, "arg_1": continuation}, ...}, or lists of lists in older versions.
#pragma once

#include <string>
#include <vector>

#include "experiments/tasks/items/choice_items.h"

namespace tare {

bool IsHarnessLog(const nlohmann::json& json);

// The arguments of each request: {context, continuation}, or {text}. Throws Error if they are not lists of as many
// strings, at least one.
std::vector<std::vector<std::string>> LoggedArguments(const nlohmann::json& json, const std::string& where);

// The one request of a task that generates answers: its context, and the arguments of the generation, an object. Throws
// Error for anything else.
struct LoggedRequest {
  std::string prompt;
  nlohmann::json arguments;
};
LoggedRequest LoggedGeneration(const nlohmann::json& json, const std::string& where);

// A line of a multiple-choice task: sets the item's fields as ReadChoiceForm does. Endings are the continuations
// without the space in front, if all have one: what the harness divides by the characters of. The true one is the
// "target", an index or an ending, as far as it agrees with the logged answer and its "acc"; where contexts differ the
// target does not tell, and those two do. Requests without a context, which acc_mutual_info adds, are left out. Throws
// Error if that leaves no answer or several.
void ReadLoggedChoice(const nlohmann::json& json, ChoiceItem& item);

// "doc_id", and the document's fields that are numbers, booleans, or strings of at most 64 bytes.
Json LoggedKeys(const nlohmann::json& json);

}  // namespace tare
