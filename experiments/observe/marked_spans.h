// SPDX-License-Identifier: Apache-2.0
// Marks positions of a text as answer or noise, to measure the attention on each (Differential Transformer, Table 3).
// JSON lines, one per marked sequence; positions count from 0, with `<s>`; ranges are [begin, end):
//
//   {"sequence": 0, "answer": [[10, 14]], "noise": [[1, 10], [14, 60]], "queries": [63, 64]}
//
// queries: positions whose attention is measured; default: the last. noise: default: every position from 1 to the first
// query that is not in the answer.
//
// Or multiple-choice items whose true ending occurs in the context (needles in a haystack), as an input of statistics.
// An item is one sequence, `<s>`, context and true ending, tokenized as in the choice task, with marks:
//
//   queries  the positions that predict the ending's tokens
//   answer   the ending's tokens wherever they occur in the context
//   noise    every other position of the context but `<s>`
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "experiments/passes/sequences.h"

namespace tare {

struct TokenRange {
  int64_t begin = 0, end = 0;
  bool Contains(int64_t position) const { return begin <= position && position < end; }
  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

struct Marks {
  std::vector<TokenRange> answer, noise;
  TokenRange queries;
};

struct MarkedSpans {
  std::map<int64_t, Marks> marks;  // by sequence
  std::string sha256;              // of their file; empty without marks

  // lengths: of the sequences. Throws Error for a line not of this form, or a range outside its sequence.
  static MarkedSpans Load(const std::filesystem::path& path, std::span<const int64_t> lengths);

  const Marks* Find(int64_t sequence) const;  // null if it has none
};

// The parts of [begin, end) outside the ranges, which must be sorted.
std::vector<TokenRange> Between(const std::vector<TokenRange>& ranges, int64_t begin, int64_t end);

// Sum of |row| over the ranges, as far as the row reaches; first: the position of its first value.
double MassOf(std::span<const float> row, std::span<const TokenRange> ranges, int64_t first = 0);

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
