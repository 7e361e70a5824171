// SPDX-License-Identifier: Apache-2.0
// Tasks that score endings by log-likelihood, like lm-evaluation-harness's, or generated answers (generated.cc).
#pragma once

#include <vector>

#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/passes/generate.h"
#include "experiments/passes/progress.h"
#include "experiments/tasks/items/lines.h"
#include "experiments/tasks/task.h"

namespace tare {

// An item's endings share their context (as branches of one sequence) if that changes no result: not with a scale that
// spans rows, nor if an ending changes the context's tokens. With a cache, each ending forks its context's.
enum class ContextSharing { kAllowed, kForbidden };

struct ScoredEnding {
  double log_likelihood = 0;  // nats, the sum over its tokens
  size_t characters = 0;      // of EncodedChoice
  bool greedy = true;         // each of its tokens is the most probable one, the first of equals
};

using EndingScores = std::vector<std::vector<ScoredEnding>>;  // [items][endings]

// For each item, each of its endings. cache: runs through a cache; empty: through ordinary forward passes. Throws Error
// if an item does not fit the model's positions, or if a likelihood is not finite.
EndingScores ScoreEndings(Model& model, SiteVisitors visitors, ContextSharing sharing,
                          const std::vector<ChoiceItem>& items, const Tokenizer& tokenizer, std::optional<int32_t> bos,
                          const std::optional<CachePlan>& cache, const Progress& progress);

// A task that scores the items with the model's own tokenizer. `result` makes its figures and records; then "bos" is
// added: whether `<s>` came first. Throws Error if an item does not fit the model, before the first one runs.
RunTask TaskOfItems(std::vector<ChoiceItem> items, const Model& of,
                    TaskResult (*result)(const std::vector<ChoiceItem>& items, const EndingScores& scores));

// Multiple choice like lm-evaluation-harness's HellaSwag: the answer has the largest sum of log-probabilities (acc), or
// that divided by its characters (acc_norm). An accuracy's error is s / sqrt(n), s the outcomes' sample deviation.
extern const TaskKind kChoiceTask;  // choice=ITEMS.jsonl

// n, acc, acc_norm, their errors (the harness's, of independent items), outcomes; where items share samples (BySample)
// those right (sample_right, sample_right_norm) of sample_items. A record each: "line", "label", "answer",
// "answer_norm" (best ending, ties first), "log_likelihoods" (nats) and "characters" by ending, line's keys as "item".
TaskResult Accuracies(const std::vector<ChoiceItem>& items, const EndingScores& scores);
// The accuracy to report ("reported" in the result): acc_norm if endings after one context have several words, as
// lm-evaluation-harness for HellaSwag, ARC, OpenBookQA and PIQA; for letters, numbers, words or other contexts acc.
const char* ReportedAccuracy(const std::vector<ChoiceItem>& items);

// Log-likelihoods of continuations (ParseContinuation), scored like lm-evaluation-harness's LAMBADA: acc is the share
// that greedy decoding would produce, perplexity exp of the mean of minus their sums over tokens.
extern const TaskKind kLogLikelihoodTask;  // loglikelihood=CONTINUATIONS.jsonl

// All continuations' n, acc, its error and outcomes, perplexity, and minus each log-likelihood (item_losses;
// item_counts: ones); samples as in Accuracies. A record each: "line", "log_likelihood", "greedy", its keys as "item".
TaskResult LogLikelihoods(const std::vector<ChoiceItem>& items, const EndingScores& scores);

// Generated answers, scored against targets (items/lines.h). The figure that counts is acc, the share right by the
// items' own rule; exact, contains, recall, f1 and number are also given. Errors are over items, or samples (BySample).
//
// Each prompt, after `<s>`, is continued as `tare generate` continues it, one after another: over the cache that is
// asked for, else one in f32. A plan that cannot decode (attn_logits, probs, difference; scales that span tokens;
// executed attention) passes the whole text again for each token: its scales then see the text so far. An answer ends
// before a stop string, at a token that ends a text, or after its most tokens: it is cut.
//
// lm-evaluation-harness shortens a prompt that leaves no room for the answer; here it is refused.
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

// All answers' n; share, error and outcomes of acc, exact, contains, number; mean, error and sums per sample of recall
// and f1 (f1_sums, recall_sums of mean_counts items); number cut; answer_tokens. A record each: "line", "answer",
// "tokens", "end" (stop, end_of_text, tokens), "right", scores, "seed" if drawn, its line's keys as "item".
TaskResult ScoreAnswers(const std::vector<PromptItem>& items, const std::vector<Answer>& answers);

// The figures of several runs' scores [runs][documents] by one metric: n and score with its standard error. Where every
// score is 0 or 1 they are outcomes; else the documents' scores (score_sums, mean_counts), compared as means.
std::vector<Json> ScoreFigures(const std::vector<std::vector<double>>& runs);

}  // namespace tare
