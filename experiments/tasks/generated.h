// SPDX-License-Identifier: Apache-2.0
// Answers that the model generates after prompts, scored against their targets (items/lines.h). The figure that
// counts is acc, the share of answers that are right by what their items declare; exact, contains, recall, f1 and
// number stand beside it. Errors are over items, or over samples where items share them (BySample).
//
// Each prompt, after `<s>`, is continued as `tare generate` continues it, one after another: over the cache that is
// asked for, else one in f32. A plan that cannot decode (attn_logits, probs, difference; scales that span tokens;
// executed attention) passes the whole text again for each token: its scales then see the text so far. An answer ends
// before a stop string, at a token that ends a text, or after its most tokens: it is cut.
//
// lm-evaluation-harness shortens a prompt that leaves no room for the answer; here it is refused.
#pragma once

#include "experiments/passes/generate.h"
#include "experiments/tasks/items/lines.h"
#include "experiments/tasks/task.h"

namespace tare {

extern const TaskKind kGenerateTask;  // generate=ITEMS.jsonl

extern const TaskKind kMetricTask;  // no task of a model: a metric that lm-evaluation-harness logged of its answers

enum class AnswerEnd { kStop, kEndOfText, kTokens };

struct Answer {
  std::vector<int32_t> tokens;
  std::string text;
  AnswerEnd end = AnswerEnd::kTokens;
  int64_t most_tokens = 0;
  Sampling sampling;
};

// Figures of all answers: n; of acc, exact, contains and number the share, its standard error and outcomes; of recall
// and f1 the mean, its standard error and the sums per sample (f1_sums, recall_sums of mean_counts items); how many
// were cut, and answer_tokens of all. A record each: "line", "answer", "tokens", "end" (stop, end_of_text, tokens),
// "right", the scores, "seed" if drawn, and its line's keys as "item".
TaskResult ScoreAnswers(const std::vector<PromptItem>& items, const std::vector<Answer>& answers);

// The figures of several runs' scores [runs][documents] by one metric: n and score with its standard error. Where every
// score is 0 or 1 they are outcomes; else the documents' scores (score_sums, mean_counts), compared as means.
std::vector<Json> ScoreFigures(const std::vector<std::vector<double>>& runs);

}  // namespace tare
