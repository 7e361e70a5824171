// SPDX-License-Identifier: Apache-2.0
// Against rotations of the plane, plain sums of the header's equation, and what descent promises.
#include "quant/algorithms/cayley.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tare::cayley_test {
namespace {

using Values = std::vector<double>;

Values Identity(int64_t n) {
  Values q(static_cast<size_t>(n * n), 0.0);
  for (int64_t i = 0; i < n; ++i) q[static_cast<size_t>(i * n + i)] = 1;
  return q;
}

Values Random(int64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Values m(static_cast<size_t>(n * n));
  for (double& x : m) x = normal(random);
  return m;
}

Values Product(int64_t n, const Values& a, const Values& b) {
  Values c(a.size(), 0.0);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t k = 0; k < n; ++k) c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
  }
  return c;
}

Values Turned(int64_t n, const Values& a) {
  Values t(a.size());
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) t[j * n + i] = a[i * n + j];
  }
  return t;
}

double LargestDifference(const Values& a, const Values& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// In the plane all skew directions are one: Q turns by 2 atan(angle / 2) against the gradient, whatever its size.
TEST(Cayley, TurnsThePlaneByTheAngle) {
  for (const double size : {1e-9, 1.0, 1e9}) {
    Values q = Identity(2);
    CayleyStep(2, Values{5, size, 0, -3}, 0.3, q);
    const double turn = 2 * std::atan(0.15);
    EXPECT_LT(LargestDifference(q, {std::cos(turn), -std::sin(turn), std::sin(turn), std::cos(turn)}), 1e-15) << size;
  }
}

TEST(Cayley, SolvesItsEquation) {
  constexpr int64_t kN = 7;
  const Values m = Random(kN, 1);
  Values c = Identity(kN), k(m.size());
  CayleyStep(kN, m, 0.8, c);
  double squares = 0;
  for (int64_t i = 0; i < kN; ++i) {
    for (int64_t j = 0; j < kN; ++j) {
      k[i * kN + j] = m[i * kN + j] - m[j * kN + i];
      squares += k[i * kN + j] * k[i * kN + j];
    }
  }
  Values sum = Identity(kN), difference = sum;  // I + K and I - K
  for (size_t i = 0; i < k.size(); ++i) {
    k[i] *= 0.4 * std::sqrt(kN / squares);
    sum[i] += k[i];
    difference[i] -= k[i];
  }
  EXPECT_LT(LargestDifference(Product(kN, sum, c), difference), 1e-14);
  Values q = Random(kN, 2), from = q;
  CayleyStep(kN, m, 0.8, q);
  EXPECT_LT(LargestDifference(q, Product(kN, from, c)), 1e-14) << "on the right of what was there";
}

// A step's factor is off by the solver's rounding: at most n 2^-53 times a few for I + K, whose condition is at most
// sqrt(1 + |K|^2). Steps add up.
TEST(Cayley, StaysOrthogonalInManySteps) {
  constexpr int64_t kN = 24, kSteps = 1000;
  Values q = Identity(kN);
  for (int64_t step = 0; step < kSteps; ++step) CayleyStep(kN, Random(kN, static_cast<uint64_t>(step)), 0.5, q);
  EXPECT_LT(LargestDifference(Product(kN, Turned(kN, q), q), Identity(kN)), kSteps * kN * 0x1p-53);
  EXPECT_GT(LargestDifference(q, Identity(kN)), 0.5) << "turned at all";
}

TEST(Cayley, ASymmetricGradientIsNoDirection) {
  constexpr int64_t kN = 5;
  Values m = Random(kN, 1), q = Random(kN, 2);
  const Values before = q, turned = Turned(kN, m);
  for (size_t i = 0; i < m.size(); ++i) m[i] += turned[i];
  CayleyStep(kN, m, 0.5, q);
  EXPECT_EQ(q, before);
}

// f(Q) = -tr(T^T Q) with an orthogonal T has its least value at T, and <-Q^T T, Q^T dQ> = df.
TEST(Cayley, DescendsToAnOrthogonalTarget) {
  constexpr int64_t kN = 8, kSteps = 400;
  Values target = Identity(kN), q = Identity(kN);
  CayleyStep(kN, Random(kN, 3), 1.0, target);
  for (int64_t step = 0; step < kSteps; ++step) {
    Values m = Product(kN, Turned(kN, q), target);
    for (double& x : m) x = -x;
    CayleyStep(kN, m, 0.05 * (1 - static_cast<double>(step) / kSteps), q);
  }
  EXPECT_LT(LargestDifference(q, target), 1e-3);
}

}  // namespace
}  // namespace tare::cayley_test
