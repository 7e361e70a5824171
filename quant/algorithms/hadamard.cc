// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/hadamard.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "quant/base/error.h"

namespace tare {
namespace {

bool IsPrime(int64_t q) {
  if (q < 2) return false;
  for (int64_t d = 2; d * d <= q; ++d) {
    if (q % d == 0) return false;
  }
  return true;
}

// Rows of the smallest Paley matrix b such that n / b is a power of two; 1 for a power of two itself.
int64_t BaseOf(int64_t n) {
  int64_t odd = n;
  while (odd % 2 == 0) odd /= 2;
  if (odd == 1) return 1;
  for (int64_t base = 4 * odd; base <= n; base *= 2) {
    if (n % base == 0 && IsPrime(base - 1)) return base;
  }
  Fail(
      "hadamard: got {} channels, expected a power of two, or 2^k (q + 1) with q a prime and q mod 4 = 3 (no other "
      "Hadamard matrix is known here); try smoothquant",
      n);
}

// I + S with S = [0 1; -1 Q], Q_ij = 1 where i - j is a square modulo q, else -1, and 0 on the diagonal.
std::vector<int8_t> Paley(int64_t base) {
  const int64_t q = base - 1;
  std::vector<int8_t> square(static_cast<size_t>(q), -1), h(static_cast<size_t>(base * base), 1);
  for (int64_t x = 1; x < q; ++x) square[x * x % q] = 1;
  for (int64_t i = 1; i < base; ++i) {
    h[i * base] = -1;
    for (int64_t j = 1; j < base; ++j) h[i * base + j] = i == j ? int8_t{1} : square[(i - j + q) % q];
  }
  return h;
}

// Each run of `base` values by Paley's matrix, of which entry(i, j) is row i, column j.
void MultiplyRuns(std::vector<double>& values, int64_t base, auto entry) {
  thread_local std::vector<double> sums;
  sums.resize(static_cast<size_t>(base));
  for (int64_t begin = 0; begin < std::ssize(values); begin += base) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t i = 0; i < base; ++i) {
      for (int64_t j = 0; j < base; ++j) sums[j] += values[begin + i] * static_cast<double>(entry(i, j));
    }
    std::copy(sums.begin(), sums.end(), values.begin() + static_cast<ptrdiff_t>(begin));
  }
}

// The rest, a power of two, by Sylvester's matrix, which is symmetric.
void MultiplyAcrossRuns(std::vector<double>& values, int64_t base) {
  const int64_t n = std::ssize(values);
  for (int64_t step = base; step < n; step *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * step) {
      for (int64_t i = begin; i < begin + step; ++i) {
        const double a = values[i], b = values[i + step];
        values[i] = a + b;
        values[i + step] = a - b;
      }
    }
  }
}

}  // namespace

Hadamard::Hadamard(int64_t n, uint64_t seed) {
  if (n < 1) Fail("hadamard: got {} channels, expected at least one", n);
  base_ = BaseOf(n);
  if (base_ > 1) paley_ = Paley(base_);
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < n; ++i) signs_.push_back(static_cast<int8_t>((random() >> 63) == 0 ? 1 : -1));
}

void Hadamard::Rotate(const float* x, float* y) const {
  thread_local std::vector<double> values;
  values.resize(signs_.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = double{x[i]} * static_cast<double>(signs_[i]);
  if (base_ > 1) MultiplyRuns(values, base_, [&](int64_t i, int64_t j) { return paley_[i * base_ + j]; });
  MultiplyAcrossRuns(values, base_);
  const double factor = 1 / std::sqrt(static_cast<double>(size()));
  for (size_t i = 0; i < values.size(); ++i) y[i] = static_cast<float>(values[i] * factor);
}

void Hadamard::RotateBack(const float* x, float* y) const {
  thread_local std::vector<double> values;
  values.assign(x, x + size());
  MultiplyAcrossRuns(values, base_);
  if (base_ > 1) MultiplyRuns(values, base_, [&](int64_t i, int64_t j) { return paley_[j * base_ + i]; });
  const double factor = 1 / std::sqrt(static_cast<double>(size()));
  for (size_t i = 0; i < values.size(); ++i)
    y[i] = static_cast<float>(values[i] * factor * static_cast<double>(signs_[i]));
}

}  // namespace tare
