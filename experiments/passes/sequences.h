// SPDX-License-Identifier: Apache-2.0
// Cuts a text or rows of ids into sequences of at most a window's length, and runs them all. Text windows begin with
// the checkpoint's `<s>`.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/passes/progress.h"
#include "experiments/text/tokenizer/token_input.h"

namespace tare {

inline constexpr int64_t kTextWindow = 512;

struct WindowOptions {
  // Positions of one sequence, `<s>` among them; 0: 512 for text, whole rows for ids, as far as the model allows.
  int64_t window = 0;
  int64_t stride = 0;  // tokens between the starts of windows; 0: no overlap (of one token where there is no `<s>`)
  int64_t tokens = 0;  // at most so many tokens of the input, 0: all
  int64_t limit = 0;   // at most so many windows, 0: all
};

// One sequence for the model, and which of its positions predict a token that is scored.
struct ScoredSequence {
  std::vector<int32_t> tokens;
  int64_t first_target = 1;  // targets are tokens[first_target ..], each predicted by the position before it
};

// What the options come to for an input and a model.
struct WindowCut {
  int64_t window = 0;             // positions
  int64_t stride = 0;             // tokens
  bool bos = false;               // whether the first position is `<s>`
  bool cut_to_positions = false;  // whether windows would be longer, had the model more positions

  size_t Tokens() const { return static_cast<size_t>(window - (bos ? 1 : 0)); }  // of a window
};
WindowCut CutOf(const TokenInput& input, const ModelConfig& config, const WindowOptions& options);

// The input cut by the convention of perplexity. Throws Error where the window is longer than the model's positions or
// leaves no token.
std::vector<ScoredSequence> CutSequences(const TokenInput& input, const ModelConfig& config,
                                         const WindowOptions& options);
// The same windows side by side, the last one short: every token in exactly one, which is what statistics need.
std::vector<ScoredSequence> CutDisjoint(const TokenInput& input, const ModelConfig& config,
                                        const WindowOptions& options);

// How many of them share a forward pass: as many of the longest as fit 2,048 rows, at least one. Part of every result.
size_t SequencesPerBatch(const std::vector<ScoredSequence>& sequences);

// Sequences [begin, begin + count), or as many as there are, whole and each by its place.
TokenBatch BatchOf(const std::vector<ScoredSequence>& sequences, size_t begin, size_t count);

// Runs every sequence through the model, batch by batch; after each, body sees the batch's sequences [begin, end).
void ForwardAll(Model& model, SiteVisitors visitors, const std::vector<ScoredSequence>& sequences,
                const Progress& progress, const std::function<void(const TokenBatch&, size_t begin)>& body);

// Throws Error where the end of a prompt chooses keys: a text has none.
void CheckCacheOfTexts(const CachePlan& plan);

// The same tokens through key/value caches (cached_passes.h). body sees the batch of each pass. Throws Error as
// CheckCacheOfTexts.
void ForwardThroughCaches(Model& model, SiteVisitors visitors, const std::vector<ScoredSequence>& sequences,
                          const CachePlan& plan, const Progress& progress,
                          const std::function<void(const TokenBatch&)>& body);

// Which rows of a batch predict a scored token.
struct PredictedTokens {
  std::vector<int64_t> rows;      // of the batch
  std::vector<int32_t> targets;   // ids
  std::vector<int64_t> contexts;  // tokens before it in its sequence
  std::vector<size_t> places;     // among all scored tokens, in the order of the sequences
};
class ScoredTokens {
 public:
  explicit ScoredTokens(const std::vector<ScoredSequence>& sequences);

  size_t size() const { return first_.back(); }
  PredictedTokens In(const TokenBatch& batch) const;
  // Sums of a value per token, given in the order of places, over each sequence's tokens; and how many those are.
  std::vector<double> SumsOf(const std::vector<double>& values) const;
  std::vector<int64_t> Counts() const;

 private:
  const std::vector<ScoredSequence>& sequences_;
  std::vector<size_t> first_;  // place of each sequence's first, and the number of all
};

}  // namespace tare
