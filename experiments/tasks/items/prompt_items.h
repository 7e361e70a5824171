// SPDX-License-Identifier: Apache-2.0
// Prompts to be answered by generated text, one per JSON line, and how good an answer is:
//
//   {"prompt": "...", "targets": ["...", ...]}      taken as written; and, if wanted,
//     "messages": [...]                             instead of the prompt: as the chat template writes them (text/chat)
//     "stop": ["\n", ...]                           the answer ends before the first of these texts
//     "max_tokens": 32, "temperature": 0.7, "top_p": 0.9
//     "score": "exact", "contains", "all" or "number"    what counts as right (AnswerScores); exact if absent
//   lines that lm-evaluation-harness logged of a task with output_type: generate_until (lines.h)
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
#include "quant/file/json.h"

namespace tare {

enum class AnswerScore { kExact, kContains, kAll, kNumber };

struct PromptItem {
  std::string prompt;                // of a chat, its messages in JSON
  Json chat;                         // or null
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

// How good a generated answer is, each the best over its targets:
//
//   exact      the same words: in lower case, without ASCII punctuation, without the words a, an and the (SQuAD's
//              normalisation; its articles are words between spaces here)
//   contains   the target occurs in the answer, in any case (RULER's string_match_part)
//   recall     the share of targets that occur (RULER's string_match_all)
//   f1         of the words of answer and target, normalised as for exact (SQuAD): 2 c / (a + t) for c common ones
//   number     the last number of the answer is the target's last, by value: as GSM8K's flexible-extract of
//              lm-evaluation-harness finds numbers ("(-?[$0-9.,]{2,})|(-?[0-9]+)"), but a match needs a digit, and 18
//              is 18.0
struct AnswerScores {
  bool exact = false, contains = false, number = false;
  double recall = 0, f1 = 0;

  // By what the item declares; `all`: every target occurs.
  bool Right(AnswerScore score) const;
};
AnswerScores ScoreAnswer(std::string_view answer, const std::vector<std::string>& targets);

// SQuAD's words of a text.
std::vector<std::string> NormalWords(std::string_view text);
double WordF1(const std::vector<std::string>& answer, const std::vector<std::string>& target);
// The text's last number in one spelling: "-1234.5" of "-$1,234.50"; none without, or of what is no number ("1.2.3").
std::optional<std::string> LastNumber(std::string_view text);

}  // namespace tare
