// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/attention/sequence_cache.h"

#include <numeric>

#include "quant/base/message.h"

namespace tare {
namespace {

// The first key that any query of the part sees, or one before it that begins a block and scales of tokens<N>.
int64_t FirstKey(const ExecutedPlan& plan, const AttentionProblem& part, int64_t tokens) {
  int64_t whole = plan.attention.block;
  for (const Granularity& scale : {plan.scale_q, plan.scale_k}) whole = std::lcm(whole, std::max(scale.n, 1));
  return part.mask.Keys(0, part.q.tokens, tokens).begin / whole * whole;
}

// For a prompt that grows: with room, as new memory costs more than half as much as reading the cache into it.
template <typename T>
void Grow(AlignedBuffer<T>& memory, size_t size) {
  if (memory.size() < size) memory.Reset(size + size / 2);
}

HeadsView<float> Rows(AlignedBuffer<float>& memory, int64_t tokens, int heads, int width) {
  Grow(memory, static_cast<size_t>(tokens * heads * width));
  return DenseHeads(memory.data(), tokens, heads, width);
}

const DecodeHeads& HeadsOf(const AttentionProblem& problem, const SequenceCache& cache, const CacheShape& shape,
                           std::vector<DecodeHeads>& met) {
  const int64_t window = problem.mask.kind == Mask::Kind::kWindow ? problem.mask.window : 0;
  const auto found = std::ranges::find_if(
      met, [&](const DecodeHeads& heads) { return heads.window() == window && heads.skip() == cache.skip(); });
  if (found != met.end()) return *found;
  return met.emplace_back(problem.heads, problem.q.heads, shape, problem.scale, window, cache.skip());
}

}  // namespace

void PromptAttention(const ExecutedPlan& plan, const AttentionProblem& part, const KvCache& cache,
                     PromptMemory& memory) {
  const CacheShape& shape = cache.shape();
  const int64_t first = FirstKey(plan, part, cache.tokens()), tokens = cache.tokens() - first;
  const HeadsView<float> k = Rows(memory.k, tokens, shape.k_heads, shape.k_width),
                         v = Rows(memory.v, tokens, shape.v_heads, shape.v_width);
  cache.Read(first, k, v);
  AttentionProblem problem = part;
  problem.k = ReadOnly(k);
  problem.v = ReadOnly(v);
  const ExecutedSequence prepared(plan, problem, memory.executed, tokens - part.q.tokens);
  Grow(memory.workspace, prepared.WorkspaceBytes());
  prepared.Run(memory.workspace.span());
}

AttentionProblem SequenceRows(const AttentionSequence& sequence, const AttentionProblem& batch) {
  const KeyRange rows{sequence.first_row, sequence.first_row + sequence.prefix};
  return PartOf(batch, rows, rows);
}

void CachedAttention(const AttentionProblem& problem, std::span<const AttentionSequence> sequences,
                     std::span<SequenceCache* const> caches, int layer, const ExecutedPlan* of_prompts,
                     const std::function<KvCache(const KvCache&)>& expand, DecodeScratch& scratch) {
  TARE_CHECK(caches.size() == sequences.size() && problem.mask.kind != Mask::Kind::kFull);
  std::vector<DecodeSequence> calls;
  std::vector<SequenceCache*> decoded;
  std::vector<KvCache> expanded;
  expanded.reserve(sequences.size());
  for (size_t i = 0; i < sequences.size(); ++i) {
    const AttentionSequence& s = sequences[i];
    TARE_CHECK(s.branches.empty());
    KvCache& kept = caches[i]->Layer(layer);
    const AttentionProblem rows = SequenceRows(s, problem);
    if (caches[i]->Owns(layer)) kept.Append(rows.k, rows.v);
    const KvCache& cache = expand ? expanded.emplace_back(expand(kept)) : kept;
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
