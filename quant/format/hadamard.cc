// SPDX-License-Identifier: Apache-2.0
#include "quant/format/hadamard.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <random>
#include <type_traits>
#include <utility>

#include "quant/base/message.h"

namespace tare {
namespace {

bool IsPrime(int64_t q) {
  if (q < 2) return false;
  for (int64_t d = 2; d * d <= q; ++d) {
    if (q % d == 0) return false;
  }
  return true;
}

// The number whose cube n is, or 0.
int64_t CubeRootOf(int64_t n) {
  const auto root = static_cast<int64_t>(std::llround(std::cbrt(static_cast<double>(n))));
  return root * root * root == n ? root : 0;
}

constexpr int64_t kLargestBase = 2048;  // rows of Paley's matrix: its product costs as much as a layer's

// The field of q elements, q a prime or the cube of a prime p: then polynomials of degree 2 over p's field, whose
// coefficients are an element's digits in base p, and x^3 = a x + b.
class Field {
 public:
  explicit Field(int64_t q) : q_(q), p_(IsPrime(q) ? q : CubeRootOf(q)) {
    while (p_ < q_ && HasRoot()) {
      if (++b_ == p_) ++a_, b_ = 0;
    }
  }

  int64_t Difference(int64_t x, int64_t y) const {
    const Digits u = Split(x), v = Split(y);
    return Join({u[0] - v[0] + p_, u[1] - v[1] + p_, u[2] - v[2] + p_});
  }
  int64_t Square(int64_t x) const {
    const auto [c, d, e] = Split(x);
    const int64_t third = 2 * d * e, fourth = e * e;  // of x^3 and x^4 = a x^2 + b x
    return Join({c * c + b_ * third, 2 * c * d + a_ * third + b_ * fourth, 2 * c * e + d * d + a_ * fourth});
  }

 private:
  using Digits = std::array<int64_t, 3>;
  Digits Split(int64_t x) const { return {x % p_, x / p_ % p_, x / p_ / p_}; }
  int64_t Join(const Digits& x) const { return p_ == q_ ? x[0] % p_ : x[0] % p_ + p_ * (x[1] % p_ + p_ * (x[2] % p_)); }
  // Whether x^3 - a x - b has a root; without one it has no factor.
  bool HasRoot() const {
    return std::ranges::any_of(std::views::iota(int64_t{0}, p_),
                               [this](int64_t x) { return (x * x * x - a_ * x - b_) % p_ == 0; });
  }

  int64_t q_, p_, a_ = 0, b_ = 0;
};

// I + S with S = [0 1; -1 Q], Q_ij = 1 where i - j is a square of the field, else -1, and 0 on the diagonal.
std::vector<float> Paley(int64_t base) {
  const int64_t q = base - 1;
  const Field field(q);
  std::vector<float> square(static_cast<size_t>(q), -1), h(static_cast<size_t>(base * base), 1);
  for (int64_t x = 1; x < q; ++x) square[field.Square(x)] = 1;
  for (int64_t i = 1; i < base; ++i) {
    h[i * base] = -1;
    for (int64_t j = 1; j < base; ++j) h[i * base + j] = i == j ? 1 : square[field.Difference(i - 1, j - 1)];
  }
  return h;
}

// What is made for a key, once, and kept while the program runs.
template <typename Key, typename Make>
const auto& MadeOnce(const Key& key, Make make) {
  static std::mutex mutex;
  static std::map<Key, std::invoke_result_t<Make>> made;
  const std::scoped_lock lock(mutex);
  const auto found = made.find(key);
  return found != made.end() ? found->second : made.emplace(key, make()).first->second;
}

// Multiplies each run of `base` values by Paley's matrix.
void MultiplyRuns(std::vector<double>& values, int64_t base, std::span<const float> paley) {
  thread_local std::vector<double> sums;
  sums.resize(static_cast<size_t>(base));
  for (int64_t begin = 0; begin < std::ssize(values); begin += base) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t i = 0; i < base; ++i) {
      for (int64_t j = 0; j < base; ++j) sums[j] += values[begin + i] * double{paley[i * base + j]};
    }
    std::copy(sums.begin(), sums.end(), values.begin() + static_cast<ptrdiff_t>(begin));
  }
}

// Multiplies by its transpose, 2 I less the matrix.
void MultiplyRunsBack(std::vector<double>& values, int64_t base, std::span<const float> paley) {
  thread_local std::vector<double> before;
  before = values;
  MultiplyRuns(values, base, paley);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 2 * before[i] - values[i];
}

// The rest of a run, a power of two, by Sylvester's matrix, which is symmetric.
void MultiplyInRuns(std::vector<double>& values, int64_t base, int64_t run) {
  for (int64_t step = base; step < run; step *= 2) {
    for (int64_t begin = 0; begin < std::ssize(values); begin += 2 * step) {
      for (int64_t i = begin; i < begin + step; ++i) {
        const double a = values[i], b = values[i + step];
        values[i] = a + b;
        values[i + step] = a - b;
      }
    }
  }
}

// Box and Muller's: the standard's distributions differ between libraries.
double NormalDraw(std::mt19937_64& random) {
  const auto uniform = [&random] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };  // above 0, below 1
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

}  // namespace

// The smallest b such that run / b is a power of two; 1 for a power of two itself.
int64_t Hadamard::BaseOf(int64_t run) {
  if (run < 1) Fail("hadamard: got {} channels, expected at least one", run);
  int64_t odd = run;
  while (odd % 2 == 0) odd /= 2;
  if (odd == 1) return 1;
  for (int64_t base = 4 * odd; base <= std::min(run, kLargestBase); base *= 2) {
    if (run % base == 0 && (IsPrime(base - 1) || IsPrime(CubeRootOf(base - 1)))) return base;
  }
  Fail(
      "hadamard: got {} channels, expected a power of two, or a power of two times b, a multiple of 4 up to {} where "
      "b - 1 is a prime or the cube of one (no other Hadamard matrix is known here); try runs of fewer channels in a "
      "plan, +hadamard16, or smoothquant",
      run, kLargestBase);
}

Hadamard::Hadamard(int64_t n, uint64_t seed, int64_t run) : run_(run == 0 ? n : run) {
  if (n < 1) Fail("hadamard: got {} channels, expected at least one", n);
  if (run_ < 1 || n % run_ != 0)
    Fail("hadamard: got runs of {} channels in rows of {}, expected a divisor; try +hadamard16", run_, n);
  base_ = BaseOf(run_);
  paley_ = &MadeOnce(base_, [this] { return base_ > 1 ? Paley(base_) : std::vector<float>{1}; });
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < n; ++i) signs_.push_back((random() >> 63) == 0 ? 1.0f : -1.0f);
}

void Hadamard::Rotate(const float* x, float* y) const {
  thread_local std::vector<double> values;
  values.resize(signs_.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = double{x[i]} * double{signs_[i]};
  if (base_ > 1) MultiplyRuns(values, base_, paley());
  MultiplyInRuns(values, base_, run_);
  const double factor = 1 / std::sqrt(static_cast<double>(run_));
  for (size_t i = 0; i < values.size(); ++i) y[i] = static_cast<float>(values[i] * factor);
}

void Hadamard::RotateBack(const float* x, float* y) const {
  thread_local std::vector<double> values;
  values.assign(x, x + size());
  MultiplyInRuns(values, base_, run_);
  if (base_ > 1) MultiplyRunsBack(values, base_, paley());
  const double factor = 1 / std::sqrt(static_cast<double>(run_));
  for (size_t i = 0; i < values.size(); ++i) y[i] = static_cast<float>(values[i] * factor * double{signs_[i]});
}

const Hadamard& PlanRotation(int64_t n, RotatedRuns runs) {
  constexpr uint64_t kSeed = 1;
  const int64_t run = runs.channels == 0 ? n : runs.channels;
  return MadeOnce(std::pair(n, run), [n, run] { return Hadamard(n, kSeed, run); });
}

SignSketch::SignSketch(int64_t n, uint64_t seed) : n_(n), rows_(static_cast<size_t>(n * n)) {
  TARE_CHECK(n >= 1);
  std::mt19937_64 random(seed);
  for (float& value : rows_) value = static_cast<float>(NormalDraw(random));
}

void SignSketch::AddResidual(std::span<const float> x, std::span<float> rounded) const {
  const auto n = static_cast<size_t>(n_);
  TARE_CHECK(x.size() == n && rounded.size() == n);
  thread_local std::vector<double> left, sum;
  left.resize(n);
  sum.assign(n, 0.0);
  double squares = 0;
  for (size_t i = 0; i < n; ++i) {
    left[i] = double{x[i]} - double{rounded[i]};
    squares += left[i] * left[i];
  }
  if (squares == 0) return;
  for (size_t row = 0; row < n; ++row) {
    const float* const s = rows_.data() + row * n;
    double projected = 0;
    for (size_t i = 0; i < n; ++i) projected += double{s[i]} * left[i];
    const double sign = projected < 0 ? -1 : 1;
    for (size_t i = 0; i < n; ++i) sum[i] += sign * double{s[i]};
  }
  const double factor = std::sqrt(std::numbers::pi / 2 * squares) / static_cast<double>(n);
  for (size_t i = 0; i < n; ++i) rounded[i] = static_cast<float>(double{rounded[i]} + factor * sum[i]);
}

const SignSketch& PlanSketch(int64_t n) {
  constexpr uint64_t kSeed = 2;  // not that of the rotation's signs
  return MadeOnce(n, [n] { return SignSketch(n, kSeed); });
}

}  // namespace tare
