// SPDX-License-Identifier: Apache-2.0
// RotateRow of rows.h and its like. stages.cc compiles this file, once for each instruction set.
#include "kernels/elementwise/rows.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "quant/base/parallel.h"

#include "kernels/elementwise/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::rotate_rows {

// a + b and a - b of values that lie `step` apart, n values in pairs of such blocks: steps of whole vectors.
HWY_INLINE void AddFar(float* y, size_t n, size_t step) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  for (size_t begin = 0; begin < n; begin += 2 * step) {
    for (size_t i = begin; i < begin + step; i += lanes) {
      const V a = hn::LoadU(d, y + i), b = hn::LoadU(d, y + i + step);
      hn::StoreU(hn::Add(a, b), d, y + i);
      hn::StoreU(hn::Sub(a, b), d, y + i + step);
    }
  }
}

// As AddFar, for any step.
HWY_INLINE void AddNear(float* y, size_t n, size_t step) {
  for (size_t begin = 0; begin < n; begin += 2 * step) {
    for (size_t i = begin; i < begin + step; ++i) {
      const float a = y[i], b = y[i + step];
      y[i] = a + b;
      y[i + step] = a - b;
    }
  }
}

#if HWY_MAX_BYTES >= 32
// Steps 1, 2 and 4 inside eight lanes: what each lane adds to itself, or to its negative, comes from the lane beside.
HWY_INLINE void AddInEights(float* y, size_t n) {
  const hn::CappedTag<float, 8> d;
  alignas(32) static constexpr float kFirst[] = {1, -1, 1, -1, 1, -1, 1, -1}, kSecond[] = {1, 1, -1, -1, 1, 1, -1, -1},
                                     kThird[] = {1, 1, 1, 1, -1, -1, -1, -1};
  const auto first = hn::Load(d, kFirst), second = hn::Load(d, kSecond), third = hn::Load(d, kThird);
  for (size_t i = 0; i < n; i += 8) {
    auto x = hn::LoadU(d, y + i);
    x = hn::MulAdd(x, first, hn::Shuffle2301(x));
    x = hn::MulAdd(x, second, hn::Shuffle1032(x));
    hn::StoreU(hn::MulAdd(x, third, hn::SwapAdjacentBlocks(x)), d, y + i);
  }
}
#endif

void SylvesterRow(float* y, size_t n, size_t base, size_t run) {
  const size_t lanes = hn::Lanes(D());
  size_t step = base;
#if HWY_MAX_BYTES >= 32
  if (step == 1 && run >= 8) {
    AddInEights(y, n);
    step = 8;
  }
#endif
  for (; step < run; step *= 2) {
    if (step % lanes == 0) {
      AddFar(y, n, step);
    } else {
      AddNear(y, n, step);
    }
  }
}

// y = x M for kRuns runs of `base` values, one after another, with x apart from y.
template <size_t kRuns>
void TimesMatrix(const float* x, const float* matrix, size_t base, float* y) {
  const D d;
  const auto columns = [&](size_t j, auto load, auto store) HWY_ATTR {
    V sums[kRuns];
    for (V& sum : sums) sum = hn::Zero(d);
    for (size_t i = 0; i < base; ++i) {
      const V entry = load(matrix + i * base + j);
      for (size_t run = 0; run < kRuns; ++run) sums[run] = hn::MulAdd(hn::Set(d, x[run * base + i]), entry, sums[run]);
    }
    for (size_t run = 0; run < kRuns; ++run) store(sums[run], y + run * base + j);
  };
  const size_t lanes = hn::Lanes(d);
  size_t j = 0;
  for (; j + lanes <= base; j += lanes)
    columns(
        j, [&](const float* from) HWY_ATTR { return hn::LoadU(d, from); },
        [&](V sum, float* to) HWY_ATTR { hn::StoreU(sum, d, to); });
  if (j < base)
    columns(
        j, [&](const float* from) HWY_ATTR { return hn::LoadN(d, from, base - j); },
        [&](V sum, float* to) HWY_ATTR { hn::StoreN(sum, d, to, base - j); });
}

// All runs of n values; the matrix is read once for eight of them.
void TimesMatrixRow(const float* x, const float* matrix, size_t n, size_t base, float* y) {
  size_t begin = 0;
  for (; begin + 8 * base <= n; begin += 8 * base) TimesMatrix<8>(x + begin, matrix, base, y + begin);
  for (; begin < n; begin += base) TimesMatrix<1>(x + begin, matrix, base, y + begin);
}

}  // namespace HWY_NAMESPACE::rotate_rows
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {
namespace {

constexpr int64_t kRowsAtOnce = 8;

// y [n] times Paley's matrix, or its transpose 2 I - M.
void TimesPaley(const Hadamard& rotation, bool transposed, size_t n, float* y) {
  const auto base = static_cast<size_t>(rotation.base());
  if (base == 1) return;
  thread_local std::vector<float> x;
  x.assign(y, y + n);
  TARE_CHOSEN(rotate_rows::TimesMatrixRow)(x.data(), rotation.paley().data(), n, base, y);
  for (size_t i = 0; transposed && i < n; ++i) y[i] = 2 * x[i] - y[i];
}

void TimesSylvester(const Hadamard& rotation, size_t n, float* y) {
  TARE_CHOSEN(rotate_rows::SylvesterRow)(y, n, static_cast<size_t>(rotation.base()),
                                         static_cast<size_t>(rotation.run()));
}

// y = x D / sqrt(run); y may be x.
void TimesSigns(const Hadamard& rotation, const float* x, float* y) {
  const float factor = 1 / std::sqrt(static_cast<float>(rotation.run()));
  const std::span<const float> signs = rotation.signs();
  for (size_t i = 0; i < signs.size(); ++i) y[i] = x[i] * signs[i] * factor;
}

void Rotate(const Hadamard& rotation, const float* x, int64_t rows, float* y) {
  const int64_t n = rotation.size();
  for (int64_t row = 0; row < rows; ++row) TimesSigns(rotation, x + row * n, y + row * n);
  TimesPaley(rotation, false, static_cast<size_t>(rows * n), y);
  TimesSylvester(rotation, static_cast<size_t>(rows * n), y);
}

}  // namespace

void RotateRow(const Hadamard& rotation, const float* x, float* y) { Rotate(rotation, x, 1, y); }

void RotateRowBack(const Hadamard& rotation, const float* x, float* y) {
  const auto n = static_cast<size_t>(rotation.size());
  if (x != y) std::copy_n(x, n, y);
  TimesSylvester(rotation, n, y);
  TimesPaley(rotation, true, n, y);
  TimesSigns(rotation, y, y);
}

void RotateRows(const Hadamard& rotation, const float* x, int64_t rows, float* y) {
  ParallelForBlocks(rows, kRowsAtOnce, [&](int64_t first, int64_t count) {
    const int64_t begin = first * rotation.size();
    Rotate(rotation, x + begin, count, y + begin);
  });
}

}  // namespace tare
#endif  // HWY_ONCE
