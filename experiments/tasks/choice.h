// SPDX-License-Identifier: Apache-2.0
// Tasks that score endings. Multiple choice by log-likelihood, scored as lm-evaluation-harness scores HellaSwag: the
// ending with the largest sum of log-probabilities is the model's answer (acc), or with the largest sum divided by the
// ending's characters (acc_norm). The standard error of an accuracy is s / sqrt(n), s the sample standard deviation of
// the 0/1 outcomes.
#pragma once

#include <vector>

#include "experiments/model/model.h"
#include "experiments/tasks/ending_scores.h"
#include "experiments/tasks/task.h"

namespace tare {

extern const TaskKind kChoiceTask;  // choice=ITEMS.jsonl

// n, acc, acc_norm, their standard errors (as the harness has them, of independent items) and outcomes; where items
// share samples (tasks/groups.h) how many of each are right (sample_right, sample_right_norm) and there
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
