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
  std::vector<float> k = RandomNormal(kTokens * 32, 1), v = RandomNormal(kTokens * 32, 2);
  HeadsView<const float> K(int64_t begin, int64_t end) const {
    return DenseHeads(k.data() + begin * 32, end - begin, 2, 16);
  }
  HeadsView<const float> V(int64_t begin, int64_t end) const {
    return DenseHeads(v.data() + begin * 32, end - begin, 1, 32);
  }
  void AppendTo(KvCache& cache, int64_t begin, int64_t end) const { cache.Append(K(begin, end), V(begin, end)); }
};

// All rows, K then V, as they are read.
inline std::vector<float> Rows(const KvCache& cache) {
  std::vector<float> rows(cache.tokens() * 64);
  for (int64_t t = 0; t < cache.tokens(); ++t) {
    for (int h = 0; h < 2; ++h) cache.ReadKey(t, h, rows.data() + t * 64 + 16 * h);
    cache.ReadValue(t, 0, rows.data() + t * 64 + 32);
  }
  return rows;
}

}  // namespace tare::cache_tokens
