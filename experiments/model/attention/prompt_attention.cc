// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/attention/prompt_attention.h"

#include <algorithm>

#include "quant/base/parallel.h"

namespace tare {
namespace {

// The first key that any query of the part sees, or one before it that begins a block.
int64_t FirstKey(const ExecutedPlan& plan, const AttentionProblem& part, int64_t tokens) {
  const int64_t seen = part.mask.Keys(0, part.q.tokens, tokens).begin;
  return seen / plan.attention.block * plan.attention.block;
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

}  // namespace

void PromptAttention(const ExecutedPlan& plan, const AttentionProblem& part, const KvCache& cache,
                     PromptMemory& memory) {
  const CacheShape& shape = cache.shape();
  const int64_t first = FirstKey(plan, part, cache.tokens()), tokens = cache.tokens() - first;
  const HeadsView<float> k = Rows(memory.k, tokens, shape.k_heads, shape.k_width),
                         v = Rows(memory.v, tokens, shape.v_heads, shape.v_width);
  ParallelFor(static_cast<size_t>(tokens), [&](size_t i, int) {
    const auto token = static_cast<int64_t>(i);
    for (int h = 0; h < k.heads; ++h) cache.ReadKey(first + token, h, k.Row(token, h));
    for (int h = 0; h < v.heads; ++h) cache.ReadValue(first + token, h, v.Row(token, h));
  });
  AttentionProblem problem = part;
  problem.k = ReadOnly(k);
  problem.v = ReadOnly(v);
  const ExecutedSequence prepared(plan, problem, memory.executed);
  Grow(memory.workspace, prepared.WorkspaceBytes());
  prepared.Run(memory.workspace.span());
}

}  // namespace tare
