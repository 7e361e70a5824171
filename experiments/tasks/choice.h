// SPDX-License-Identifier: Apache-2.0
// Tasks that score endings, by their log-likelihoods after their contexts, as lm-evaluation-harness's loglikelihood
// requests have them.
#pragma once

#include <vector>

#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
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

}  // namespace tare
