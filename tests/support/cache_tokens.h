// SPDX-License-Identifier: Apache-2.0
// Seeded keys and values of a small cache, appended piece by piece, and its rows as they are read.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cache/kv_cache.h"
#include "tests/support/random_quantized.h"

namespace tare::cache_tokens {

inline constexpr CacheShape kShape{.k_heads = 2, .k_width = 16, .v_heads = 1, .v_width = 32};
inline constexpr int64_t kTokens = 200;
inline constexpr CacheRules kInt4{.k = {Format::kInt4}, .v = {Format::kInt4}};

struct Tokens {
  CacheShape shape = kShape;
  int64_t count = kTokens;
  std::vector<float> k = RandomNormal(count * shape.k_heads * shape.k_width, 1);
  std::vector<float> v = RandomNormal(count * shape.v_heads * shape.v_width, 2);

  HeadsView<const float> K(int64_t begin, int64_t end) const {
    return DenseHeads(k.data() + begin * shape.k_heads * shape.k_width, end - begin, shape.k_heads, shape.k_width);
  }
  HeadsView<const float> V(int64_t begin, int64_t end) const {
    return DenseHeads(v.data() + begin * shape.v_heads * shape.v_width, end - begin, shape.v_heads, shape.v_width);
  }
  void AppendTo(KvCache& cache, int64_t begin, int64_t end) const { cache.Append(K(begin, end), V(begin, end)); }
};

// All rows, K then V, as they are read.
inline std::vector<float> Rows(const KvCache& cache) {
  const CacheShape& s = cache.shape();
  std::vector<float> rows(cache.tokens() * (s.k_heads * s.k_width + s.v_heads * s.v_width));
  float* row = rows.data();
  for (int64_t t = 0; t < cache.tokens(); ++t) {
    for (int h = 0; h < s.k_heads; ++h, row += s.k_width) cache.ReadKey(t, h, row);
    for (int h = 0; h < s.v_heads; ++h, row += s.v_width) cache.ReadValue(t, h, row);
  }
  return rows;
}

}  // namespace tare::cache_tokens
