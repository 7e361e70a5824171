// SPDX-License-Identifier: Apache-2.0
#include "quant/format/hadamard.h"

#include <cmath>
#include <numbers>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"

namespace tare::hadamard_test {
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
  for (const int64_t n : {1, 2, 4, 8, 12, 20, 24, 28, 40, 44, 56, 64, 96, 128, 256, 344, 384, 640}) {
    const std::vector<float> r = MatrixOf(Hadamard(n, 3));
    for (const float x : r) ASSERT_FLOAT_EQ(std::abs(x), static_cast<float>(1 / std::sqrt(static_cast<double>(n))));
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        const float *const a = r.data() + i * n, *const b = r.data() + j * n;
        double dot = 0;
        for (int64_t c = 0; c < n; ++c) dot += double{a[c]} * double{b[c]};
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

// R has a block for each run of channels, and zeros beside the blocks.
TEST(Hadamard, RunsAreRotatedByThemselves) {
  for (const auto& [n, run] : {std::pair<int64_t, int64_t>{32, 8}, {48, 16}, {72, 24}, {56, 28}, {16, 16}, {6, 2}}) {
    const std::vector<float> r = MatrixOf(Hadamard(n, 1, run));
    const auto entry = static_cast<float>(1 / std::sqrt(static_cast<double>(run)));
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j)
        ASSERT_FLOAT_EQ(std::abs(r[i * n + j]), i / run == j / run ? entry : 0.0f) << n << " " << i << " " << j;
      for (int64_t k = 0; k < i; ++k) {
        double dot = 0;
        for (int64_t c = 0; c < n; ++c) dot += double{r[i * n + c]} * double{r[k * n + c]};
        ASSERT_NEAR(dot, 0, 1e-6) << n << " " << i << " " << k;
      }
    }
    std::vector<float> x = RandomNormal(static_cast<size_t>(n), 3), y = x;
    Hadamard(n, 1, run).Rotate(y.data(), y.data());
    Hadamard(n, 1, run).RotateBack(y.data(), y.data());
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(y[i], x[i], 1e-5) << n;
  }
  EXPECT_THAT(Call([] { Hadamard(48, 1, 32); }),
              testing::ThrowsMessage<Error>("hadamard: got runs of 32 channels in rows of 48, expected a divisor; try "
                                            "+hadamard16"));
}

TEST(Hadamard, APlansRotationIsOneForAWidth) {
  EXPECT_EQ(&PlanRotation(64), &PlanRotation(64, {64}));
  EXPECT_NE(&PlanRotation(64), &PlanRotation(64, {16}));
  EXPECT_EQ(MatrixOf(PlanRotation(64, {16})), MatrixOf(Hadamard(64, 1, 16)));
}

// 6 is not a multiple of 4; 36 - 1 = 35, 52 - 1 = 51 and 76 - 1 = 75 are neither primes nor cubes of one (there are
// such matrices, built in other ways).
TEST(Hadamard, SizesWithoutAMatrixAreRefused) {
  for (const int64_t n : {0, 3, 6, 36, 52, 76}) {
    EXPECT_THAT(Call([&] { Hadamard(n, 0); }), testing::ThrowsMessage<Error>(testing::HasSubstr("hadamard: got"))) << n;
  }
}

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

// The mean over matrices of q y is q x (QJL, lemma 3.2), and the variance at most pi / 2n |q|^2 |r|^2 (lemma 3.5), so
// that the mean of many lies within five of its deviations.
TEST(SignSketch, ScoresHaveNoBias) {
  constexpr int kMatrices = 2000;
  for (const int64_t n : {8, 32}) {
    const std::vector<float> x = RandomNormal(static_cast<size_t>(n), 1), q = RandomNormal(static_cast<size_t>(n), 2);
    std::vector<float> rounded(x);
    for (float& value : rounded) value = std::nearbyint(value);
    std::vector<float> left(x);
    for (size_t i = 0; i < left.size(); ++i) left[i] -= rounded[i];
    double sum = 0;
    for (uint64_t seed = 0; seed < kMatrices; ++seed) {
      std::vector<float> y(rounded);
      SignSketch(n, seed).AddResidual(x, y);
      sum += Dot(q, y);
    }
    const double deviation = std::sqrt(std::numbers::pi / 2 / static_cast<double>(n) * Dot(q, q) * Dot(left, left));
    EXPECT_NEAR(sum / kMatrices, Dot(q, x), 5 * deviation / std::sqrt(kMatrices)) << n;
    EXPECT_GT(std::fabs(Dot(q, left)), 5 * deviation / std::sqrt(kMatrices)) << "a residual that the test can miss";
  }
}

// The sketch depends on the residual alone: twice as long it gives twice as much, and turned about the opposite.
TEST(SignSketch, FollowsLengthAndSign) {
  constexpr int64_t n = 5;
  const SignSketch sketch(n, 3);
  const std::vector<float> zero(n, 0.0f), r = RandomNormal(n, 4);
  const auto gain = [&](float factor) {
    std::vector<float> x(r), y(zero);
    for (float& value : x) value *= factor;
    sketch.AddResidual(x, y);
    return y;
  };
  const std::vector<float> once = gain(1), twice = gain(2), opposite = gain(-1);
  for (size_t i = 0; i < n; ++i) {
    EXPECT_FLOAT_EQ(twice[i], 2 * once[i]);
    EXPECT_FLOAT_EQ(opposite[i], -once[i]);
  }
}

TEST(SignSketch, AnExactRowStaysAndOneChannelIsRestored) {
  std::vector<float> x{1.5f, -2.0f, 0.0f}, y(x);
  SignSketch(3, 1).AddResidual(x, y);
  EXPECT_EQ(y, x);
  // n = 1: y = sqrt(pi/2) |r| |s| sign(r) has r's sign.
  std::vector<float> one{-0.5f}, rounded{0.0f};
  SignSketch(1, 1).AddResidual(one, rounded);
  EXPECT_LT(rounded[0], 0.0f);
}

TEST(SignSketch, APlansSketchIsMadeOnce) {
  EXPECT_EQ(&PlanSketch(32), &PlanSketch(32));
  EXPECT_EQ(PlanSketch(16).size(), 16);
}

}  // namespace

}  // namespace tare::hadamard_test
