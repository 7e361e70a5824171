// SPDX-License-Identifier: Apache-2.0
// Perplexity of the tokens that need a long context (LongPPL: Fang et al. 2024, arXiv 2410.23771, equations 2 to 5, and
// the authors' code for pieces). In a window of m positions, with a short context of K and pieces of K/4 tokens, token
// i >= K is a key token if
//
//   LSD = ln p(i | all before it in the window) - ln p(i | K to K + K/4 - 1 before it) > 2, and
//   LCL = ln p(i | all before it in the window) > -2
//
// The figure is exp of the key tokens' mean loss given the whole window. Which tokens are key is decided once, by
// TaskOptions::reference as stored, or else by the model under test without a plan: every plan is scored on the same
// tokens. Loss over all tokens hardly notices what a model reads far back; these tokens are chosen for it.
#pragma once

#include "experiments/tasks/task.h"

namespace tare {

extern const TaskKind kLongPerplexityTask;  // longppl=TEXT

inline constexpr int64_t kShortContext = 4096;  // K, if no option gives another

// The pieces that predict a window's tokens from a short context, in the order of the window: each scores up to K/4
// tokens (at least one) from K before the first of them. Together they score tokens[max(K, first_target) ..].
std::vector<ScoredSequence> ShortPieces(const ScoredSequence& window, int64_t short_context);

// Of each token with K or more before it in its window, in the order of the text: whether it is a key token.
std::vector<bool> KeyTokens(Model& evaluator, const std::vector<ScoredSequence>& windows, int64_t short_context,
                            const Progress& progress);

}  // namespace tare
