// SPDX-License-Identifier: Apache-2.0
// Log-likelihoods of given continuations (items/continuation_items.h), scored as lm-evaluation-harness scores LAMBADA:
// acc is the share of continuations that greedy decoding would produce, perplexity exp of the mean of minus their
// log-likelihoods, each the sum over the continuation's tokens.
#pragma once

#include "experiments/tasks/ending_scores.h"
#include "experiments/tasks/task.h"

namespace tare {

extern const TaskKind kLogLikelihoodTask;  // loglikelihood=CONTINUATIONS.jsonl

// Of all continuations: n, acc, its standard error and outcomes, perplexity, and minus each log-likelihood
// (item_losses; item_counts are ones); samples as in Accuracies (choice.h). One record each: "line", "log_likelihood",
// "greedy", its line's keys as "item".
TaskResult LogLikelihoods(const std::vector<ChoiceItem>& items, const EndingScores& scores);

}  // namespace tare
