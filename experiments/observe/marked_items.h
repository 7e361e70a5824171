// SPDX-License-Identifier: Apache-2.0
// Multiple-choice items whose true ending occurs in the context (needles in a haystack), as an input of statistics. An
// item is one sequence, `<s>`, context and true ending, tokenized as in the choice task, with marks (marked_spans.h):
//
//   queries  the positions that predict the ending's tokens
//   answer   the ending's tokens wherever they occur in the context
//   noise    every other position of the context but `<s>`
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "experiments/observe/marked_spans.h"
#include "experiments/passes/sequences.h"

namespace tare {

struct MarkedItems {
  TokenInput input;  // path, hash and `<s>`
  std::vector<ScoredSequence> sequences;
  MarkedSpans spans;
};

// `limit` items (tasks/items/lines.h); 0: all. Throws Error with file and line for an ending that does not occur in its
// context as tokens of its own, and for an item longer than the model's positions.
MarkedItems LoadMarkedItems(const std::filesystem::path& path, const std::filesystem::path& model_folder,
                            const ModelConfig& config, size_t limit = 0, TakeFrom from = TakeFrom::kStart);

}  // namespace tare
