// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/attention/cached_attention.h"

#include <algorithm>

#include "kernels/decode/decode_attention.h"
#include "quant/base/error.h"

namespace tare {
namespace {

const DecodeHeads& HeadsOf(const AttentionProblem& problem, const SequenceCache& cache, const CacheShape& shape,
                           std::vector<DecodeHeads>& met) {
  const int64_t window = problem.mask.kind == Mask::Kind::kWindow ? problem.mask.window : 0;
  const auto found = std::ranges::find_if(
      met, [&](const DecodeHeads& heads) { return heads.window() == window && heads.skip() == cache.skip(); });
  if (found != met.end()) return *found;
  return met.emplace_back(problem.heads, problem.q.heads, shape, problem.scale, window, cache.skip());
}

}  // namespace

AttentionProblem SequenceRows(const AttentionSequence& sequence, const AttentionProblem& batch) {
  AttentionProblem rows = batch;
  const auto cut = [&](auto& view) {
    view.data = view.Row(sequence.first_row, 0);
    view.tokens = sequence.prefix;
  };
  cut(rows.q), cut(rows.k), cut(rows.v), cut(rows.out);
  rows.lambda.data += sequence.first_row * batch.lambda.token_stride;
  return rows;
}

void CachedAttention(const AttentionProblem& problem, std::span<const AttentionSequence> sequences,
                     std::span<SequenceCache* const> caches, int layer, const ExecutedPlan* of_prompts,
                     DecodeScratch& scratch) {
  TARE_CHECK(caches.size() == sequences.size() && problem.mask.kind != Mask::Kind::kFull);
  std::vector<DecodeSequence> calls;
  std::vector<SequenceCache*> decoded;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const AttentionSequence& s = sequences[i];
    TARE_CHECK(s.branches.empty());
    KvCache& cache = caches[i]->Layer(layer);
    const AttentionProblem rows = SequenceRows(s, problem);
    if (caches[i]->Owns(layer)) cache.Append(rows.k, rows.v);
    if (of_prompts != nullptr && caches[i]->InPrompt(layer)) {
      PromptAttention(*of_prompts, rows, cache, scratch.prompt);
      continue;
    }
    decoded.push_back(caches[i]);
    calls.push_back(
        {.cache = &cache, .q = rows.q, .lambda = rows.lambda, .out = rows.out, .newer = 0, .sinks = rows.sinks});
  }
  if (calls.empty()) return;
  const DecodeHeads& heads = HeadsOf(problem, *decoded.front(), calls.front().cache->shape(), scratch.heads);
  scratch.workspace.Reserve(DecodeWorkspaceBytes(heads, calls));
  decoded.front()->Count(DecodeAttention(heads, calls, scratch.workspace.span()));
  for (size_t i = 0; i < calls.size(); ++i) {
    if (decoded[i]->Owns(layer)) decoded[i]->Update(layer, heads, calls[i]);
  }
}

}  // namespace tare
