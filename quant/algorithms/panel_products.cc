// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/panel_products.h"

#include <algorithm>

#include "quant/base/parallel.h"

namespace tare {
namespace {

// sums [kPanel][kRowsTogether] += panel [count][kPanel] times x [count][kRowsTogether], kVectors vectors of rows at a
// time: they take kPanel * kVectors registers, and one for each vector of x. Meanwhile the next panel is fetched, whose
// place no processor guesses (4,096 columns, one core of a Zen 5: 80 GFLOP/s without, 145 with it).
template <typename Vector, int64_t kVectors>
[[gnu::always_inline]] inline void AddTile(int64_t count, const float* panel, const float* next, const float* x,
                                           float* sums) {
  constexpr int64_t kLanes = sizeof(Vector) / sizeof(float);
  for (int64_t first = 0; first < kRowsTogether; first += kVectors * kLanes) {
    Vector tile[kPanel][kVectors];
    for (int64_t j = 0; j < kPanel; ++j) {
      for (int64_t v = 0; v < kVectors; ++v)
        tile[j][v] = *reinterpret_cast<const Vector*>(sums + j * kRowsTogether + first + v * kLanes);
    }
    for (int64_t k = 0; k < count; ++k) {
      const float* const m = panel + k * kPanel;
      if (first == 0) __builtin_prefetch(next + k * kPanel);
      const auto* const rows = reinterpret_cast<const Vector*>(x + k * kRowsTogether + first);
      for (int64_t j = 0; j < kPanel; ++j) {
        for (int64_t v = 0; v < kVectors; ++v) tile[j][v] += m[j] * rows[v];
      }
    }
    for (int64_t j = 0; j < kPanel; ++j) {
      for (int64_t v = 0; v < kVectors; ++v)
        *reinterpret_cast<Vector*>(sums + j * kRowsTogether + first + v * kLanes) = tile[j][v];
    }
  }
}

template <int kBytes>
struct OfBytes {
  typedef float Vector __attribute__((vector_size(kBytes), may_alias));
};

void AddPlain(int64_t count, const float* panel, const float* next, const float* x, float* sums) {
  AddTile<OfBytes<16>::Vector, 1>(count, panel, next, x, sums);
}
using Add = decltype(&AddPlain);
#ifdef __x86_64__
[[gnu::target("avx2")]] void AddAvx2(int64_t count, const float* panel, const float* next, const float* x,
                                     float* sums) {
  AddTile<OfBytes<32>::Vector, 1>(count, panel, next, x, sums);
}
[[gnu::target("avx512f")]] void AddAvx512(int64_t count, const float* panel, const float* next, const float* x,
                                          float* sums) {
  AddTile<OfBytes<64>::Vector, 2>(count, panel, next, x, sums);
}
Add FastestAdd() {
  if (__builtin_cpu_supports("avx512f")) return AddAvx512;
  return __builtin_cpu_supports("avx2") ? AddAvx2 : AddPlain;
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
