// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/second_moments.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>

#include "quant/base/parallel.h"

namespace tare {
namespace {

// sums [kPanel][kRowsTogether] += panel [count][kPanel] times x [count][kRowsTogether]. Those of vectors hold the sums
// in registers; meanwhile the next panel is fetched, whose place no processor guesses (4,096 columns, one core of a Zen
// 5: 80 GFLOP/s without, 145 with it).
void AddPlain(int64_t count, const float* panel, const float*, const float* x, float* sums) {
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t j = 0; j < kPanel; ++j) {
      float* const sum = sums + j * kRowsTogether;
      for (int64_t r = 0; r < kRowsTogether; ++r)
        sum[r] = std::fma(panel[k * kPanel + j], x[k * kRowsTogether + r], sum[r]);
    }
  }
}
using Add = decltype(&AddPlain);
#ifdef __x86_64__
[[gnu::target("avx2,fma")]] void AddAvx2(int64_t count, const float* panel, const float* next, const float* x,
                                         float* sums) {
  constexpr int64_t kLanes = 8;
  for (int64_t first = 0; first < kRowsTogether; first += kLanes) {
    __m256 tile[kPanel];
    for (int64_t j = 0; j < kPanel; ++j) tile[j] = _mm256_load_ps(sums + j * kRowsTogether + first);
    for (int64_t k = 0; k < count; ++k) {
      if (first == 0) __builtin_prefetch(next + k * kPanel);
      const __m256 rows = _mm256_load_ps(x + k * kRowsTogether + first);
      for (int64_t j = 0; j < kPanel; ++j)
        tile[j] = _mm256_fmadd_ps(_mm256_broadcast_ss(panel + k * kPanel + j), rows, tile[j]);
    }
    for (int64_t j = 0; j < kPanel; ++j) _mm256_store_ps(sums + j * kRowsTogether + first, tile[j]);
  }
}
[[gnu::target("avx512f")]] void AddAvx512(int64_t count, const float* panel, const float* next, const float* x,
                                          float* sums) {
  constexpr int64_t kLanes = 16;
  static_assert(kRowsTogether == 2 * kLanes);
  __m512 low[kPanel], high[kPanel];
  for (int64_t j = 0; j < kPanel; ++j) {
    low[j] = _mm512_load_ps(sums + j * kRowsTogether);
    high[j] = _mm512_load_ps(sums + j * kRowsTogether + kLanes);
  }
  for (int64_t k = 0; k < count; ++k) {
    __builtin_prefetch(next + k * kPanel);
    const __m512 rows_low = _mm512_load_ps(x + k * kRowsTogether),
                 rows_high = _mm512_load_ps(x + k * kRowsTogether + kLanes);
    for (int64_t j = 0; j < kPanel; ++j) {
      const __m512 m = _mm512_set1_ps(panel[k * kPanel + j]);
      low[j] = _mm512_fmadd_ps(m, rows_low, low[j]);
      high[j] = _mm512_fmadd_ps(m, rows_high, high[j]);
    }
  }
  for (int64_t j = 0; j < kPanel; ++j) {
    _mm512_store_ps(sums + j * kRowsTogether, low[j]);
    _mm512_store_ps(sums + j * kRowsTogether + kLanes, high[j]);
  }
}
Add FastestAdd() {
  if (__builtin_cpu_supports("avx512f")) return AddAvx512;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? AddAvx2 : AddPlain;
}
#else
Add FastestAdd() { return AddPlain; }
#endif

}  // namespace

Panels::Panels(Shape shape, int64_t n, const float* from) : shape_(shape), n_(n) {
  values_.Reset(static_cast<size_t>(Before(count()) * kPanel));
  ParallelFor(static_cast<size_t>(count()), [&](size_t index, int) {
    const auto p = static_cast<int64_t>(index);
    const int64_t first = p * kPanel, columns = std::min(kPanel, n - first);
    float* to = values_.data() + Before(p) * kPanel;
    for (int64_t k = 0; k < RowsOf(p); ++k, to += kPanel) {
      std::fill_n(to, kPanel, 0.0f);
      if (k < n) std::copy_n(from + k * n + first, columns, to);
    }
  });
}

AlignedBuffer<float> Panels::Zeros(int64_t n) {
  AlignedBuffer<float> zeros(ValuesFor(n));
  std::fill_n(zeros.data(), zeros.size(), 0.0f);
  return zeros;
}

void Panels::AddProducts(Range k, Range panels, const float* x, float* sums) const {
  static const Add add = FastestAdd();
  const int64_t last = panels.end - 1;
  for (int64_t first = k.begin; first < k.end; first += kColumnsLater) {
    const int64_t count = std::min(kColumnsLater, k.end - first);
    for (int64_t p = panels.begin; p < panels.end; ++p)
      add(count, Row(p, first), Row(std::min(p + 1, last), first), x + first * kRowsTogether,
          sums + p * kPanel * kRowsTogether);
  }
}

}  // namespace tare
