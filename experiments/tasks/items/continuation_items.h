// SPDX-License-Identifier: Apache-2.0
// Continuations whose log-likelihood is asked for, one per JSON line, as lm-evaluation-harness asks for them
// (output_type: loglikelihood):
//
//   {"context": "...", "continuation": " ..."}     scored right after the context, without a space of ours; or a list
//   {"text": "..."}                                LAMBADA's lines: the last word, and the space before it
//   lines that the harness logged                  (harness_log.h)
//
// All other fields that are a number, a string or a boolean are keys, as in choice_items.h.
#pragma once

#include "experiments/tasks/items/choice_items.h"

namespace tare {

// As items with an ending for each continuation. `limit` and errors as in LoadChoiceItems.
std::vector<ChoiceItem> LoadContinuations(const std::filesystem::path& path, size_t limit = 0,
                                          TakeFrom from = TakeFrom::kStart);
ChoiceItem ParseContinuation(std::string_view json, const std::string& where);

}  // namespace tare
