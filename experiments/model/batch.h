// SPDX-License-Identifier: Apache-2.0
// The input of one forward pass: sequences stored one after another, each a prefix and, optionally, branches that
// continue it. Sequences with caches continue after the tokens in their caches.
//
// Visitors see the tensors of its pass. Rows of the stream come in blocks of 64 tokens of one sequence; q, k, v and
// head_out by head, with all tokens of a sequence, so that a scale per channel, or per block of tokens and channel,
// lies within one block. FloatAttention shows attention logits, probabilities and their difference.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "experiments/model/attention/float_attention.h"
#include "experiments/model/attention/sequence_cache.h"
#include "kernels/attention/heads.h"
#include "quant/observe/site_visitor.h"

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
  // Tokens of a sequence: those in its cache and here, with its longest branch, or more that it is known to get.
  int64_t Length(size_t sequence) const {
    const AttentionSequence& s = sequences[sequence];
    const int64_t all = s.past + s.Longest();
    return caches.empty() ? all : std::max(all, caches[sequence]->expected());
  }
  int64_t Rows() const { return static_cast<int64_t>(tokens.size()); }
};

// For prefix and branches of all sequences: body(sequence, slot, first row, position in the sequence, tokens).
void ForPieces(const TokenBatch& batch,
               const std::function<void(const AttentionSequence&, int, int64_t, int64_t, int64_t)>& body);

// rows: [R, columns], with R the batch's rows.
void ShowRows(SiteVisitors visitors, Site site, std::optional<int> layer, const TokenBatch& batch, float* rows,
              int64_t columns);

// Values [R][heads][width] of q, k, v or head_out; `table` gives the map of each head of q or k.
void ShowHeads(SiteVisitors visitors, Site site, int layer, const TokenBatch& batch, std::span<const OutputHead> table,
               HeadsView<float> values);

// Residual streams that several runs of the same sequences share between layers. Plans that agree on the embedding and
// all layers before layer d have the same stream there, bit for bit; the first run keeps it, later ones start from it:
//
//   run     plan              layers of 4
//   first   f32               0 1 2 3     keeps the streams before layers 2 and 3
//   second  q[l2]=int4/token      2 3
//   third   q[l3]=int4/token        3
//
// Memory is bounded: a run that finds no stream, or only one before an earlier layer, computes the rest itself.
class KeptStreams {
 public:
  // Values that are kept at most, of f32: 512 MiB, 12 layers of 10,220 tokens at a width of 1,024.
  static constexpr int64_t kMost = int64_t{1} << 27;
  explicit KeptStreams(int64_t most = kMost) : most_(most) {}

  // The stream before layer `first` (after the last: their number); `second` names what it depends on besides tokens.
  using Name = std::pair<int, int>;
  struct Run {
    std::vector<int> names;   // by layer, and after the last
    std::set<int> kept;       // before which layers this run keeps its streams, 1 or more
    std::set<Name> expected;  // what this run or a later one can go on from; all others are dropped
  };
  void Begin(Run run);

  // Copies the latest kept stream of these tokens to x, [rows, E]; returns the layer it enters, 0 if none is kept.
  int Resume(const TokenBatch& batch, std::span<float> x) const;
  // x: the input of the layer in this run.
  void Keep(const TokenBatch& batch, int layer, std::span<const float> x);

  int64_t values() const { return values_; }

 private:
  using Sequences = std::vector<int64_t>;  // lengths and tokens of a batch

  static Sequences SequencesOf(const TokenBatch& batch);

  int64_t most_, values_ = 0;
  Run run_;
  std::map<Name, std::map<Sequences, std::vector<float>>> streams_;
};

}  // namespace tare
