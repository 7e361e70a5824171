// SPDX-License-Identifier: Apache-2.0
// A cache of seeded normal keys and values and queries of its newest tokens, for tests of decoding.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "kernels/decode/decode_attention.h"
#include "quant/base/aligned.h"
#include "tests/support/random_attention.h"

namespace tare {

// 10000^(-2i/d), pairs by halves.
inline std::shared_ptr<const KeyRotary> RotaryOf(int d) {
  std::vector<float> frequencies;
  for (int i = 0; i < d; i += 2)
    frequencies.push_back(std::pow(10000.0f, -static_cast<float>(i) / static_cast<float>(d)));
  return std::make_shared<const KeyRotary>(frequencies, RotaryPairs::kHalves);
}

class RandomDecode {
 public:
  // shape.queries of the last of shape.keys tokens, which are all in the cache.
  RandomDecode(const AttentionShape& shape, const CacheRules& cache_plan, unsigned seed = 1, float skip = 0)
      : tensors(shape, seed),
        cache({.k_heads = tensors.problem.k.heads,
               .k_width = shape.d,
               .v_heads = tensors.problem.v.heads,
               .v_width = shape.v_width},
              cache_plan, RotaryOf(shape.d)),
        table(tensors.heads, tensors.problem.q.heads, cache.shape(), tensors.problem.scale,
              shape.mask.kind == Mask::Kind::kWindow ? shape.mask.window : 0, skip) {
    cache.Append(tensors.problem.k, tensors.problem.v);
  }
  RandomDecode(const RandomDecode&) = delete;
  RandomDecode& operator=(const RandomDecode&) = delete;

  DecodeSequence sequence() const { return {&cache, tensors.problem.q, tensors.problem.lambda, tensors.problem.out}; }
  // What the tensors' out is after a call for this sequence alone.
  const std::vector<float>& Run() {
    const DecodeSequence one = sequence();
    AlignedBuffer<std::byte> workspace(DecodeWorkspaceBytes(table, {&one, 1}));
    DecodeAttention(table, {&one, 1}, workspace.span());
    return tensors.out;
  }

  RandomAttention tensors;
  KvCache cache;
  DecodeHeads table;
};

// Largest ||error|| of a head's rows over one of the truth's sizes of rows: what it may be, or its magnitude.
inline double WorstRowOfHead(const RandomDecode& c, int h,
                             std::vector<double> DecodeTruth::* sizes = &DecodeTruth::bounds) {
  const int width = c.table.out_width();
  double worst = 0;
  const DecodeTruth truth = ReferenceDecode(c.tensors.heads[h], h, c.table.scale(), c.table.window(), c.sequence());
  for (int64_t t = 0; t < c.tensors.problem.q.tokens; ++t) {
    double error = 0;
    for (int i = 0; i < width; ++i) error += std::pow(c.tensors.problem.out.Row(t, h)[i] - truth.out[t * width + i], 2);
    if (std::isnan(error)) return error;
    if (error > 0) worst = std::max(worst, std::sqrt(error) / (truth.*sizes)[t]);
  }
  return worst;
}

// The largest of all heads.
inline double WorstRow(const RandomDecode& c, std::vector<double> DecodeTruth::* sizes = &DecodeTruth::bounds) {
  double worst = 0;
  for (int h = 0; h < c.table.heads() && !std::isnan(worst); ++h) {
    const double of_head = WorstRowOfHead(c, h, sizes);
    worst = std::isnan(of_head) ? of_head : std::max(worst, of_head);
  }
  return worst;
}

}  // namespace tare
