// SPDX-License-Identifier: Apache-2.0
// Prompts to be answered by generated text, one per JSON line:
//
//   {"prompt": "...", "targets": ["...", ...]}      taken as written; and, if wanted,
//     "stop": ["\n", ...]                           the answer ends before the first of these texts
//     "max_tokens": 32, "temperature": 0.7, "top_p": 0.9
//     "score": "exact", "contains", "all" or "number"    what counts as right (answer_scores.h); exact if absent
//   lines that lm-evaluation-harness logged of a task with output_type: generate_until (harness_log.h)
//
// Of a logged line the request's arguments say the same: until, max_gen_toks (256 if absent), do_sample, temperature,
// top_p. Its targets are "target", a text or a list; a text with "#### " before its answer (GSM8K) is scored as a
// number. The harness logs a line for each of a task's filters; the first of a request counts.
//
// All other fields that are a number, a string or a boolean are keys, as in choice_items.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/passes/sequences.h"
#include "quant/file/json_value.h"

namespace tare {

enum class AnswerScore { kExact, kContains, kAll, kNumber };

struct PromptItem {
  std::string prompt;
  std::vector<std::string> targets;  // at least one, none blank
  std::vector<std::string> stops;    // none empty
  std::optional<int64_t> tokens;     // at most
  std::optional<double> temperature, top_p;
  AnswerScore score = AnswerScore::kExact;
  Json keys = Json::object();
  size_t line = 0;    // in its file, from 1
  std::string where;  // file and line, for messages
};

// `limit` items, 0: all (TakenPlaces). Throws Error with file and line.
std::vector<PromptItem> LoadPrompts(const std::filesystem::path& path, size_t limit, TakeFrom from);
PromptItem ParsePrompt(std::string_view json, const std::string& where);

}  // namespace tare
