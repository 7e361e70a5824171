// SPDX-License-Identifier: Apache-2.0
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
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/tasks/items/prompt_items.h"

namespace tare {

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
