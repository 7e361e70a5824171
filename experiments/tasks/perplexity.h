// SPDX-License-Identifier: Apache-2.0
// Perplexity of a text: exp of the mean negative log-likelihood per token, in nats. Each token is scored once, given as
// much context as the window allows (experiments/passes/sequences.h); text windows begin with the checkpoint's `<s>`.
#pragma once

#include "experiments/tasks/task.h"

namespace tare {

extern const TaskKind kPerplexityTask;  // perplexity=TEXT

// Which tokens of a text are scored and with what context, for results.
Json PerplexityConvention(const WindowOptions& windows);

// If a part of a text is scored, AddTaken adds which to its figures ("from", and "of_tokens" if all were counted, or
// "windows_begin"), and TakenText says it for people, " spread over 2001234 tokens".
void AddTaken(const WindowCut& cut, Json& figures);
std::string TakenText(const Json& result);

struct TokenLoss {
  double loss = 0;      // -ln p(token), nats
  int64_t context = 0;  // tokens before it
  size_t window = 0;    // which one scored it
  int64_t rank = 0;     // of the token by its probability (RankOf)
};
// Losses of the scored tokens, in the order of the text.
// cache: tokens pass through one, as decoding would see the text; nothing: through ordinary forward passes.
std::vector<TokenLoss> MeasureLosses(Model& model, SiteVisitors visitors, const std::vector<ScoredSequence>& sequences,
                                     const std::optional<CachePlan>& cache, const Progress& progress);

// The figures of these losses: nll (the mean, nats per token), nll_stderr (its error over windows, mean_error.h; null
// of too few), perplexity = exp(nll), tokens (scored), windows (that scored some), and for each window the sum of its
// losses (window_losses) and their number (window_tokens), by which two runs over the same windows can be paired. Also
// by how many tokens a token was predicted from (by_position, experiments/significance/mean_error.h): {"first",
// "last", "tokens", "nll", "nll_stderr"}. Nothing if the perplexity is not finite.
std::optional<Json> PerplexityFigures(const std::vector<TokenLoss>& tokens);
// "window", "stride", "bos", "cut_to_positions", a tool's "convention" and which part (AddTaken), which the task adds.
Json CutFigures(const WindowCut& cut);

// Throws Error if no token is scored or the perplexity is not finite.
TaskResult MeasurePerplexity(Model& model, SiteVisitors visitors, const std::vector<ScoredSequence>& sequences,
                             const std::optional<CachePlan>& cache, const Progress& progress);

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
extern const TaskKind kLongPerplexityTask;  // longppl=TEXT

inline constexpr int64_t kShortContext = 4096;  // K, if no option gives another

// The pieces that predict a window's tokens from a short context, in the order of the window: each scores up to K/4
// tokens (at least one) from K before the first of them. Together they score tokens[max(K, first_target) ..].
std::vector<ScoredSequence> ShortPieces(const ScoredSequence& window, int64_t short_context);

// For each token with K or more before it in its window, in the order of the text: whether it is a key token.
std::vector<bool> KeyTokens(Model& evaluator, const std::vector<ScoredSequence>& windows, int64_t short_context,
                            const Progress& progress);

}  // namespace tare
