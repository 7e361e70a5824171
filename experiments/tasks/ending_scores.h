// SPDX-License-Identifier: Apache-2.0
// Log-likelihoods of endings after their contexts, as lm-evaluation-harness's loglikelihood requests have them.
//
// Endings of an item share the computation of their context (as branches of one sequence) if that changes no result:
// not with a scale that spans rows, and not if an ending changes how the context is tokenized. With a key/value cache,
// each ending has a fork of its context's cache.
#pragma once

#include <vector>

#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/passes/progress.h"
#include "experiments/tasks/items/choice_items.h"
#include "experiments/tasks/task.h"

namespace tare {

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

}  // namespace tare
