// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/cached_attention.h"

#include <vector>

#include "kernels/decode/decode_attention.h"
#include "quant/base/error.h"

namespace tare {

void CachedAttention(const AttentionProblem& problem, std::span<const AttentionSequence> sequences,
                     std::span<SequenceCache* const> caches, int layer, AlignedBuffer<std::byte>& workspace) {
  TARE_CHECK(caches.size() == sequences.size() && problem.mask.kind != Mask::Kind::kFull);
  std::vector<DecodeSequence> calls;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const AttentionSequence& s = sequences[i];
    TARE_CHECK(s.branches.empty());
    const auto rows_of = [&s](auto view) {
      view.data = view.Row(s.first_row, 0);
      view.tokens = s.prefix;
      return view;
    };
    KvCache& cache = caches[i]->Layer(layer);
    cache.Append(rows_of(problem.k), rows_of(problem.v));
    LambdaView lambda = problem.lambda;
    lambda.data += s.first_row * lambda.token_stride;
    calls.push_back({.cache = &cache, .q = rows_of(problem.q), .lambda = lambda, .out = rows_of(problem.out)});
  }
  const int64_t window = problem.mask.kind == Mask::Kind::kWindow ? problem.mask.window : 0;
  const DecodePlan plan(problem.heads, problem.q.heads, calls.front().cache->shape(), problem.scale, window,
                        caches.front()->skip());
  workspace.Reserve(DecodeWorkspaceBytes(plan, calls));
  caches.front()->Count(DecodeAttention(plan, calls, workspace.span()));
  for (size_t i = 0; i < calls.size(); ++i) caches[i]->Update(layer, plan, calls[i]);
}

}  // namespace tare
