// SPDX-License-Identifier: Apache-2.0
// Sums by panels, and what is made of moments; cholesky.cc has factors.
#include "quant/algorithms/second_moments.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>

#include <Eigen/Core>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/round.h"

namespace tare {
namespace {

// sums [kPanel][kRowsTogether] += panel [count][kPanel] times x [count][kRowsTogether]. Vectors hold sums in registers,
// fetching the next panel, whose place no processor guesses (4,096 columns, a Zen 5 core: 80 GFLOP/s, 145 with it).
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

using Rows = Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

constexpr int64_t kRowsAtOnce = 64;      // share a reading of H, which no cache holds
constexpr int64_t kColumnsAtOnce = 256;  // the blocks of H below its diagonal are those above it: half the products

// Into sums, by row.
void AddErrors(const Rows& d, const Rows& h, double* sums) {
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> product;
  for (int64_t first = 0; first < d.cols(); first += kColumnsAtOnce) {
    const int64_t width = std::min(kColumnsAtOnce, d.cols() - first), rest = d.cols() - first;
    product.noalias() = d.middleCols(first, width) * h.block(first, first, width, rest);
    for (int64_t r = 0; r < d.rows(); ++r) {
      double diagonal = 0, beyond = 0;
      for (int64_t j = 0; j < width; ++j) diagonal += double{product(r, j)} * double{d(r, first + j)};
      for (int64_t j = width; j < rest; ++j) beyond += double{product(r, j)} * double{d(r, first + j)};
      sums[r] += diagonal + 2 * beyond;
    }
  }
}

double Dot(const auto& a, const auto& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

// H x, from the upper triangle of H.
std::vector<double> Product(const std::vector<float>& hessian, const auto& x) {
  const size_t in = x.size();
  std::vector<double> y(in, 0.0);
  for (size_t i = 0; i < in; ++i) {
    const float* const row = &hessian[i * in];
    y[i] += double{row[i]} * double{x[i]};
    for (size_t j = i + 1; j < in; ++j) {
      y[i] += double{row[j]} * double{x[j]};
      y[j] += double{row[j]} * double{x[i]};
    }
  }
  return y;
}

}  // namespace

double LargestEigenvalue(const std::vector<float>& hessian, int64_t in) {
  std::vector<double> x(static_cast<size_t>(in), 0.0);
  int64_t most = 0;
  for (int64_t i = 1; i < in; ++i) most = hessian[i * in + i] > hessian[most * in + most] ? i : most;
  x[most] = 1;
  double norm = 0;
  for (int step = 0; step < 30; ++step) {
    x = Product(hessian, x);
    norm = std::sqrt(Dot(x, x));
    if (norm == 0) return 0;
    for (double& value : x) value /= norm;
  }
  return norm;
}

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

std::vector<float> BothTriangles(std::vector<float> hessian, int64_t in, const std::string& where) {
  CheckSquare(where, hessian.size(), in);
  for (int64_t i = 0; i < in; ++i) {
    if (FirstNotFinite(std::span(hessian).subspan(static_cast<size_t>(i * in + i), static_cast<size_t>(in - i))))
      Fail("{}: the calibration's second moments hold NaN or infinity; try another calibration text", where);
    for (int64_t j = 0; j < i; ++j) hessian[i * in + j] = hessian[j * in + i];
  }
  return hessian;
}

double OutputError(std::span<const float> errors, int64_t in, std::span<const float> moments) {
  CheckSquare("output error", moments.size(), in);
  CheckEqual("output error", "values beyond whole rows", std::ssize(errors) % in, 0);
  const int64_t rows = std::ssize(errors) / in;
  const Rows h(moments.data(), in, in);
  std::vector<double> sums(static_cast<size_t>(rows), 0.0);
  ParallelForBlocks(rows, kRowsAtOnce, [&](int64_t first, int64_t count) {
    AddErrors(Rows(errors.data() + first * in, count, in), h, sums.data() + first);
  });
  return std::ranges::fold_left(sums, 0.0, std::plus());
}

AsymmetricTarget::AsymmetricTarget(const std::vector<float>& hessian, const std::vector<float>& cross, int64_t in,
                                   double damping, const std::string& where, std::span<const float> first)
    : in_(in) {
  CheckSquare(where, hessian.size(), in);
  CheckSquare(where, cross.size(), in);
  if (FirstNotFinite(hessian) || FirstNotFinite(cross))
    Fail("{}: the calibration's moments hold NaN or infinity; try another calibration text", where);
  const double mean = MeanOfDiagonal(hessian, in);
  std::vector<float> factor(hessian.size());
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t j = 0; j <= i; ++j) factor[i * in + j] = hessian[j * in + i];
    factor[i * in + i] = static_cast<float>(double{hessian[i * in + i]} + damping * mean);
  }
  FactorInPlace(in, factor.data(), where);
  InvertInPlace(in, factor.data());
  std::vector<float> change(cross);
  MultiplyByInverse(in, factor.data(), in, change.data());
  if (!first.empty()) {
    std::vector<float> behind(first.begin(), first.end());  // r^T H^-1
    MultiplyByInverse(in, factor.data(), 1, behind.data());
    const double of_first = Dot(first, behind), square = Dot(Product(hessian, first), first);
    ParallelFor(first.size(), [&](size_t i, int) {
      const std::span<float> row(&change[i * first.size()], first.size());
      const std::span<const float> lost(&cross[i * first.size()], first.size());
      const double more = (square > 0 ? Dot(lost, first) / square : 0.0) - Dot(row, first);
      for (size_t j = 0; j < first.size(); ++j) row[j] += static_cast<float>(more / of_first * double{behind[j]});
    });
  }
  change_ = Panels(Panels::Shape::kFull, in, change.data());
}

void AsymmetricTarget::Correct(int64_t rows, float* w) const {
  ParallelForBlocks(rows, kRowsTogether, [&](int64_t first, int64_t count) {
    AlignedBuffer<float> stored = Panels::Zeros(in_), sums = Panels::Zeros(in_);  // [in][kRowsTogether]
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t i = 0; i < in_; ++i) stored[i * kRowsTogether + r] = w[(first + r) * in_ + i];
    }
    change_.AddProducts({0, in_}, {0, change_.count()}, stored.data(), sums.data());
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t i = 0; i < in_; ++i) w[(first + r) * in_ + i] += sums[i * kRowsTogether + r];
    }
  });
}

}  // namespace tare
