// SPDX-License-Identifier: Apache-2.0
// Compared with Eigen's in double, and by products with A and I.
#include "quant/algorithms/second_moments.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <limits>
#include <vector>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/support/random_quantized.h"

namespace tare::cholesky_test {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
constexpr float kElsewhere = 1e30f;  // above the diagonal, where nothing is read or written

Matrix Definite(int64_t n, unsigned seed) {
  const std::vector<float> noise = RandomNormal(static_cast<size_t>(n * n), seed);
  Matrix x(n, n);
  for (int64_t i = 0; i < n * n; ++i) x.data()[i] = double{noise[static_cast<size_t>(i)]};
  // Eigenvalues of the noise lie within 2 sqrt(n) of 0.
  return (x + x.transpose()) / std::sqrt(2.0) + (2.2 * std::sqrt(static_cast<double>(n)) + 1) * Matrix::Identity(n, n);
}

std::vector<float> Lower(const Matrix& a) {
  std::vector<float> lower(static_cast<size_t>(a.size()), kElsewhere);
  for (int64_t i = 0; i < a.rows(); ++i) {
    for (int64_t j = 0; j <= i; ++j) lower[static_cast<size_t>(i * a.rows() + j)] = static_cast<float>(a(i, j));
  }
  return lower;
}

double Distance(const std::vector<float>& got, const Matrix& expected) {
  double worst = 0;
  for (int64_t i = 0; i < expected.rows(); ++i) {
    for (int64_t j = 0; j < expected.cols(); ++j) {
      const float value = got[static_cast<size_t>(i * expected.cols() + j)];
      if (j > i) {
        EXPECT_EQ(value, kElsewhere) << i << ' ' << j;
        continue;
      }
      worst = std::max(worst, std::abs(double{value} - expected(i, j)));
    }
  }
  return worst / expected.cwiseAbs().maxCoeff();
}

// f32 between tiles: its rounding, times a condition number of some 100, and some tiles.
TEST(Cholesky, FactorAndInverseOfAllSizes) {
  for (const int64_t n : {1, 2, 5, 63, 64, 65, 128, 130}) {
    const Matrix a = Definite(n, static_cast<unsigned>(n));
    std::vector<float> lower = Lower(a);
    FactorInPlace(n, lower.data(), "moments");
    const Matrix l = a.llt().matrixL();
    EXPECT_LT(Distance(lower, l), 2e-5) << n;
    InvertInPlace(n, lower.data());
    EXPECT_LT(Distance(lower, l.inverse()), 2e-5) << n;
  }
}

TEST(Cholesky, RowsTimesTheInverse) {
  for (const auto& [n, rows] : {std::pair<int64_t, int64_t>{1, 1}, {5, 70}, {64, 64}, {100, 3}, {130, 66}}) {
    const Matrix a = Definite(n, static_cast<unsigned>(n));
    std::vector<float> lower = Lower(a), c = RandomNormal(static_cast<size_t>(rows * n), 9);
    Matrix expected(rows, n);
    for (int64_t i = 0; i < rows * n; ++i) expected.data()[i] = double{c[static_cast<size_t>(i)]};
    expected *= a.inverse();
    FactorInPlace(n, lower.data(), "moments");
    InvertInPlace(n, lower.data());
    MultiplyByInverse(n, lower.data(), rows, c.data());
    const double largest = expected.cwiseAbs().maxCoeff();
    for (int64_t i = 0; i < rows * n; ++i)
      EXPECT_NEAR(c[static_cast<size_t>(i)], expected.data()[i], 2e-5 * largest) << n << ' ' << i;
  }
}

TEST(Cholesky, SameBitsOnAnyNumberOfThreads) {
  constexpr int64_t kSize = 260;
  std::vector<float> first;
  for (const int threads : {1, 2, 5}) {
    SetThreads(threads);
    std::vector<float> lower = Lower(Definite(kSize, 1));
    FactorInPlace(kSize, lower.data(), "moments");
    InvertInPlace(kSize, lower.data());
    if (first.empty()) first = lower;
    EXPECT_EQ(lower, first);
  }
  SetThreads(0);
}

TEST(Cholesky, WhatIsNotPositiveDefiniteIsSeen) {
  for (const int64_t n : {2, 70, 140}) {
    for (const float value :
         {-1.0f, 0.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> lower = Lower(Matrix::Identity(n, n));
      lower.back() = value;
      EXPECT_THROW(FactorInPlace(n, lower.data(), "moments"), Error) << n << ' ' << value;
    }
    std::vector<float> lower = Lower(Matrix::Identity(n, n));
    lower[static_cast<size_t>((n - 1) * n)] = 2.0f;  // [[1, 2], [2, 1]]
    EXPECT_THROW(FactorInPlace(n, lower.data(), "moments"), Error) << n;
  }
}

}  // namespace
}  // namespace tare::cholesky_test
