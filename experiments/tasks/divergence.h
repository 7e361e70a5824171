// SPDX-License-Identifier: Apache-2.0
// How far a plan, or a quantized checkpoint, moves a model's predictions on a text: Kullback-Leibler divergence from
// the reference, both run side by side over the windows of perplexity. It needs far fewer tokens than perplexity to
// detect a small change, because difficulty shared by both cancels. The figures are those of llama.cpp's perplexity
// tool (experiments/significance/token_divergence.h), which scores the second half of each window; Tare scores what
// perplexity scores.
//
// The reference is TaskOptions::reference as stored; if that is empty, the model under test without a plan. A task that
// runs under many plans runs the reference once, and keeps its logits, or else its final hidden states, while they take
// at most 256 MiB.
#pragma once

#include <memory>

#include "experiments/significance/token_divergence.h"
#include "experiments/tasks/task.h"

namespace tare {

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
// and of_text, those of the perplexity of the model under test, null if it is not finite. Throws Error for no tokens,
// and for a mean that is not finite.
TaskResult DivergenceResult(const std::vector<TokenDivergence>& tokens);

}  // namespace tare
