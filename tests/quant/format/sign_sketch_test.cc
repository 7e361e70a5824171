// SPDX-License-Identifier: Apache-2.0
#include "quant/format/sign_sketch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/support/random_quantized.h"

namespace tare::sign_sketch_test {
namespace {

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
}  // namespace tare::sign_sketch_test
