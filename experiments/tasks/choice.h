// SPDX-License-Identifier: Apache-2.0
// Tasks that score endings, by their log-likelihoods after their contexts, as lm-evaluation-harness's loglikelihood
// requests have them; and answers that the model generates (generated.cc).
#pragma once

#include <vector>

#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/passes/generate.h"
#include "experiments/passes/progress.h"
#include "experiments/tasks/items/lines.h"
#include "experiments/tasks/task.h"

namespace tare {

// Endings of an item share the computation of their context (as branches of one sequence) if that changes no result:
// not with a scale that spans rows, and not if an ending changes how the context is tokenized. With a key/value cache,
// each ending has a fork of its context's cache.
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

// Multiple choice, scored as lm-evaluation-harness scores HellaSwag: the ending with the largest sum of
// log-probabilities is the model's answer (acc), or with the largest sum divided by the ending's characters (acc_norm).
// The standard error of an accuracy is s / sqrt(n), s the sample standard deviation of the 0/1 outcomes.
extern const TaskKind kChoiceTask;  // choice=ITEMS.jsonl

// n, acc, acc_norm, their standard errors (as the harness has them, of independent items) and outcomes; where items
// share samples (BySample) how many of each are right (sample_right, sample_right_norm) and there
// (sample_items). One record each: "line", "label", "answer" and "answer_norm" (the best ending, the first of equals),
// "log_likelihoods" (nats) and "characters" by ending, its line's keys, if any, as "item".
TaskResult Accuracies(const std::vector<ChoiceItem>& items, const EndingScores& scores);
// The accuracy that figures and findings report of such items ("reported" in the task's result): acc_norm where endings
// after one context are of several words, as lm-evaluation-harness reports it of HellaSwag, ARC, OpenBookQA and PIQA;
// of letters, numbers, single words and contexts that differ, acc.
const char* ReportedAccuracy(const std::vector<ChoiceItem>& items);

// Log-likelihoods of given continuations (ParseContinuation), scored as lm-evaluation-harness scores LAMBADA: acc is
// the share of continuations that greedy decoding would produce, perplexity exp of the mean of minus their
// log-likelihoods, each the sum over the continuation's tokens.
extern const TaskKind kLogLikelihoodTask;  // loglikelihood=CONTINUATIONS.jsonl

// The figures of all continuations: n, acc, its standard error and outcomes, perplexity, and minus each log-likelihood
// (item_losses; item_counts are ones); samples as in Accuracies. One record each: "line", "log_likelihood", "greedy",
// its line's keys as "item".
TaskResult LogLikelihoods(const std::vector<ChoiceItem>& items, const EndingScores& scores);

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
