// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/hadamard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"

namespace tare {
namespace {

// R by what it does to unit vectors.
std::vector<float> MatrixOf(const Hadamard& rotation) {
  const int64_t n = rotation.size();
  std::vector<float> r(static_cast<size_t>(n * n), 0.0f);
  for (int64_t i = 0; i < n; ++i) {
    r[i * n + i] = 1;
    rotation.Rotate(r.data() + i * n, r.data() + i * n);
  }
  return r;
}

TEST(Hadamard, EveryEntryIsAsLargeAndRowsAreOrthogonal) {
  for (const int64_t n : {1, 2, 4, 8, 12, 20, 24, 40, 44, 64, 96, 128, 256, 384, 640}) {
    const std::vector<float> r = MatrixOf(Hadamard(n, 3));
    for (const float x : r) ASSERT_FLOAT_EQ(std::abs(x), static_cast<float>(1 / std::sqrt(static_cast<double>(n))));
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        double dot = 0;
        for (int64_t c = 0; c < n; ++c) dot += double{r[i * n + c]} * double{r[j * n + c]};
        ASSERT_NEAR(dot, i == j ? 1 : 0, 1e-6) << n << " " << i << " " << j;
      }
    }
  }
}

TEST(Hadamard, RotatesAnyRowAsItsMatrix) {
  for (const int64_t n : {2, 12, 48, 128}) {
    const Hadamard rotation(n, 1);
    const std::vector<float> r = MatrixOf(rotation), x = RandomNormal(static_cast<size_t>(n), 2);
    std::vector<float> y(x.size());
    rotation.Rotate(x.data(), y.data());
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += double{x[i]} * double{r[i * n + j]};
      EXPECT_NEAR(y[j], sum, 1e-5) << n;
    }
  }
}

TEST(Hadamard, RotateBackUndoesIt) {
  for (const int64_t n : {1, 2, 12, 20, 48, 64, 128}) {
    const Hadamard rotation(n, 5);
    const std::vector<float> x = RandomNormal(static_cast<size_t>(n), 2);
    std::vector<float> y(x.size());
    rotation.Rotate(x.data(), y.data());
    rotation.RotateBack(y.data(), y.data());
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(y[i], x[i], 1e-5) << n;
  }
}

TEST(Hadamard, SeedsDiffer) {
  EXPECT_EQ(MatrixOf(Hadamard(64, 1)), MatrixOf(Hadamard(64, 1)));
  EXPECT_NE(MatrixOf(Hadamard(64, 1)), MatrixOf(Hadamard(64, 2)));
}

// 6 is not a multiple of 4; 28 - 1 = 27, 36 - 1 = 35 and 76 - 1 = 75 are no primes (there are such matrices, built in
// other ways).
TEST(Hadamard, SizesWithoutAMatrixAreRefused) {
  for (const int64_t n : {0, 3, 6, 28, 36, 76}) {
    EXPECT_THAT(Call([&] { Hadamard(n, 0); }), testing::ThrowsMessage<Error>(testing::HasSubstr("hadamard: got"))) << n;
  }
}

}  // namespace
}  // namespace tare
