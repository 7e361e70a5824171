// SPDX-License-Identifier: Apache-2.0
// A cache of seeded normal keys and values and queries of its newest tokens, for tests of decoding.
#pragma once

#include <span>
#include <vector>

#include "kernels/decode/decode_attention.h"
#include "quant/base/aligned.h"
#include "tests/support/random_attention.h"

namespace tare {

class RandomDecode {
 public:
  // shape.queries of the last of shape.keys tokens, which are all in the cache.
  RandomDecode(const AttentionShape& shape, const CachePlan& cache_plan, unsigned seed = 1)
      : tensors(shape, seed),
        cache({.k_heads = tensors.problem.k.heads,
               .k_width = shape.d,
               .v_heads = tensors.problem.v.heads,
               .v_width = shape.v_width},
              cache_plan),
        plan(tensors.heads, tensors.problem.q.heads, cache.shape(), tensors.problem.scale,
             shape.mask.kind == Mask::Kind::kWindow ? shape.mask.window : 0) {
    cache.Append(tensors.problem.k, tensors.problem.v);
  }
  RandomDecode(const RandomDecode&) = delete;
  RandomDecode& operator=(const RandomDecode&) = delete;

  DecodeSequence sequence() const { return {&cache, tensors.problem.q, tensors.problem.lambda, tensors.problem.out}; }
  // What the tensors' out is after a call for this sequence alone.
  const std::vector<float>& Run() {
    const DecodeSequence one = sequence();
    AlignedBuffer<std::byte> workspace(DecodeWorkspaceBytes(plan, {&one, 1}));
    DecodeAttention(plan, {&one, 1}, workspace.span());
    return tensors.out;
  }

  RandomAttention tensors;
  KvCache cache;
  DecodePlan plan;
};

}  // namespace tare
