// SPDX-License-Identifier: Apache-2.0
// How far a plan, or a quantized checkpoint, moves a model's predictions on a text: Kullback-Leibler divergence from
// the reference, both run side by side over the windows of perplexity. It needs far fewer tokens than perplexity to
// detect a small change, because difficulty shared by both cancels. The figures have the definitions of llama.cpp's
// perplexity tool (`--kl-divergence`), which scores the second half of each window; Tare scores what perplexity scores.
// Errors are over windows (mean_error.h), because the tokens of a window are not independent; llama.cpp's are over
// tokens.
//
// The reference is TaskOptions::reference as stored; if that is empty, the model under test without a plan. A task that
// runs under many plans runs the reference once, and keeps its logits, or else its final hidden states, while they take
// at most 256 MiB.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "experiments/tasks/perplexity.h"
#include "experiments/tasks/task.h"

namespace tare {

// For one predicted token, with p the reference's distribution and q that of the model under test.
struct TokenDivergence {
  double kld = 0;             // sum p ln(p / q), nats
  double reference_loss = 0;  // -ln p(token), nats
  double loss = 0;            // -ln q(token)
  bool same_top = false;      // whether both have the same most likely token
  int64_t context = 0;        // number of context tokens
  size_t window = 0;          // which one scored it, in the order of the text
  int64_t rank = 0;           // of the token by q (RankOf)
};

struct MeanAndError {
  double mean = 0;
  std::optional<double> error;  // empty of too few windows
};

struct Divergence {
  MeanAndError kld;
  double kld_median = 0, kld_90 = 0, kld_95 = 0, kld_99 = 0, kld_999 = 0, kld_largest = 0;
  MeanAndError same_top;   // a share
  MeanAndError delta_p;    // q(token) - p(token)
  double delta_p_rms = 0;  // root of the mean square
  MeanAndError log_ratio;  // ln of perplexity / the reference's: the mean of loss - reference_loss
};

// Needs at least one token.
Divergence DivergenceOf(std::span<const TokenDivergence> tokens);

// A quantile of sorted values, with linear interpolation.
double Quantile(std::span<const double> sorted, double share);

extern const TaskKind kDivergenceTask;  // divergence=TEXT

// What the reference made of all scored tokens, from one run over the sequences to the next: logits [tokens, V], or
// final hidden states [tokens, E], which take less memory.
struct ReferenceStates {
  enum class Of { kLogits, kFinalNorm };
  Of of = Of::kFinalNorm;
  std::vector<float> values = {};
  bool complete = false;
};

// options.reference as stored, or `of` without a plan. Throws Error if their vocabularies differ in
// size or their tokenizers in a piece.
std::shared_ptr<Model> ReferenceOf(const Model& of, const TaskOptions& options);

// One per scored token, in the order of the text. Divergences are exact to f32's rounding of logits: a small one may
// fall below 0 by some 1e-7 of the largest logit. Both models must have the same vocabulary. The model may be its own
// reference, which takes no second pass. `states`: filled by the first run, and then used instead of the reference's
// passes; null, or with a cache: the reference runs. All of these give the same bits.
std::vector<TokenDivergence> MeasureDivergence(Model& model, SiteVisitors visitors, Model& reference,
                                               const std::vector<ScoredSequence>& sequences,
                                               const std::optional<CachePlan>& cache, const Progress& progress,
                                               ReferenceStates* states = nullptr);

// The task's figures of these tokens, in the order of the text, with sums of each window, in which runs can be paired;
// and of_text, those of the model under test by `of` (PerplexityFigures, ClassFigures), null if they are not finite.
// Throws Error for no tokens, and for a mean that is not finite.
TaskResult DivergenceResult(const std::vector<TokenDivergence>& tokens,
                            std::optional<Json> (*of)(const std::vector<TokenLoss>&) = PerplexityFigures);

}  // namespace tare
