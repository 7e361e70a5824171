// SPDX-License-Identifier: Apache-2.0
// The input of one forward pass: sequences stored one after another, each a prefix and, optionally, branches that
// continue it. Sequences with caches continue after the tokens in their caches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "experiments/model/attention/float_attention.h"
#include "experiments/model/attention/sequence_cache.h"

namespace tare {

struct TokenBatch {
  std::vector<int32_t> tokens;
  std::vector<AttentionSequence> sequences;
  std::vector<SequenceCache*> caches;  // one per sequence, or empty

  // Appends a sequence without branches; returns its first row.
  int64_t Add(int64_t index, std::span<const int32_t> sequence) {
    const auto first = static_cast<int64_t>(tokens.size());
    sequences.push_back(
        {.index = index, .first_row = first, .prefix = static_cast<int64_t>(sequence.size()), .branches = {}});
    tokens.insert(tokens.end(), sequence.begin(), sequence.end());
    return first;
  }
  // Appends the next tokens of a sequence, after those in its cache; they join the cache.
  int64_t AddAfter(SequenceCache& cache, int64_t index, std::span<const int32_t> next) {
    const int64_t first = Add(index, next);
    sequences.back().past = cache.tokens();
    caches.push_back(&cache);
    return first;
  }
  // Adds a branch that continues the last sequence's prefix; returns the branch's first row.
  int64_t AddBranch(std::span<const int32_t> branch) {
    const auto first = static_cast<int64_t>(tokens.size());
    sequences.back().branches.push_back(static_cast<int64_t>(branch.size()));
    tokens.insert(tokens.end(), branch.begin(), branch.end());
    return first;
  }
  // Tokens of a sequence: what it has in its cache and gets here, with its longest branch, or more that it is known to
  // get.
  int64_t Length(size_t sequence) const {
    const AttentionSequence& s = sequences[sequence];
    const int64_t branch = s.branches.empty() ? 0 : *std::ranges::max_element(s.branches);
    const int64_t all = s.past + s.prefix + branch;
    return caches.empty() ? all : std::max(all, caches[sequence]->expected());
  }
  int64_t Rows() const { return static_cast<int64_t>(tokens.size()); }
};

}  // namespace tare
