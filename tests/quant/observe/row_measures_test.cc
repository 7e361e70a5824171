// SPDX-License-Identifier: Apache-2.0
// Against plain sums in long double, within the bound of row_measures.h; the variants by hand. Of maps by hand,
// and against plain double.
#include "quant/observe/row_measures.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tare::row_measures_test {
namespace {

Moments Plain(const std::vector<float>& values) {
  Moments m;
  for (const float value : values) {
    const long double v = value;
    m.count += 1;
    m.x += v;
    m.x2 += v * v;
    m.x3 += v * v * v;
    m.x4 += v * v * v * v;
  }
  return m;
}

std::vector<float> Drawn(size_t n, float mean, std::mt19937& random) {
  std::normal_distribution<float> normal(mean, 2.0f);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

TEST(Moments, SumsAreThoseOfPlainAdditions) {
  std::mt19937 random(1);
  for (const size_t n : {0, 1, 7, 8, 9, 63, 64, 1000, 2049}) {
    const std::vector<float> values = Drawn(n, 0.5f, random);
    const PowerSums sums = SumPowers(values);
    const Moments plain = Plain(values);
    long double magnitude = 0, cubes = 0;
    for (const float v : values) {
      magnitude += std::fabs(v);
      cubes += std::fabs(static_cast<long double>(v) * v * v);
    }
    const long double bound = (static_cast<long double>(n) / 4 + 5 + 2) * 0x1p-53L;  // 2 for rounding the powers
    EXPECT_NEAR(sums.x, plain.x, bound * magnitude);
    EXPECT_NEAR(sums.magnitude, magnitude, bound * magnitude);
    EXPECT_NEAR(sums.x2, plain.x2, bound * plain.x2);
    EXPECT_NEAR(sums.x3, plain.x3, bound * cubes);
    EXPECT_NEAR(sums.x4, plain.x4, bound * plain.x4);
  }
}

TEST(Moments, SumsFirstAndThirdBesideSecondAndFourth) {
  EXPECT_EQ(SumPowers(std::vector<float>{1e38f, 1, -1e38f, 2}).x, 3);
  EXPECT_EQ(SumPowers(std::vector<float>{1e38f, -1e38f, 1, 2}).x, 0);  // what stands beside 1e38 is lost
}

TEST(Moments, DetectRowsThatAreNotFinite) {
  for (const float odd : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t at : {0, 8, 12}) {
      std::vector<float> values(13, 1.0f);
      values[at] = odd;
      EXPECT_FALSE(std::isfinite(SumPowers(values).magnitude));
      EXPECT_FALSE(std::isfinite(SumPowers(values).x4));
    }
  }
  EXPECT_TRUE(std::isfinite(SumPowers(std::vector<float>(3, std::numeric_limits<float>::max())).x4));
}

TEST(Moments, AreTheTextbooks) {
  std::mt19937 random(2);
  const std::vector<float> values = Drawn(5000, 3.0f, random);
  const Moments m = Plain(values);
  long double mean = 0, m2 = 0, m4 = 0;
  for (const float v : values) mean += v / 5000.0L;
  for (const float v : values) {
    m2 += (v - mean) * (v - mean) / 5000.0L;
    m4 += (v - mean) * (v - mean) * (v - mean) * (v - mean) / 5000.0L;
  }
  EXPECT_NEAR(m.Mean(), mean, 1e-14 * mean);
  EXPECT_NEAR(m.Variance(), m2, 1e-13 * m2);
  EXPECT_NEAR(m.Kurtosis(), m4 / (m2 * m2), 1e-12 * 3);
  EXPECT_NEAR(m.Kurtosis(), 3.0, 0.3);  // a normal law: deviation of the kurtosis of n values sqrt(24/n) = 0.07
  const long double s2 = m2 * 5000 / 4999;
  EXPECT_NEAR(m.QuantizableKurtosis(), m4 / (s2 * s2 + 1e-6L), 1e-12 * 3);
  EXPECT_NEAR(m.RowKurtosis(), m.x4 / 5000 / (s2 * s2) - 3, 1e-12 * 50);
}

TEST(Moments, VariantsByHand) {
  // -1 1 -1 1: m2 1, m4 1, s^2 4/3.
  const Moments m = Plain({-1, 1, -1, 1});
  EXPECT_DOUBLE_EQ(m.Kurtosis(), 1.0);
  EXPECT_DOUBLE_EQ(m.QuantizableKurtosis(), 1.0 / (16.0 / 9.0 + 1e-6));
  EXPECT_EQ(m.RowKurtosis(), 0.0);            // 9/16 - 3, clipped
  const Moments spike = Plain({0, 0, 0, 8});  // mean 2, s^2 16, E[x^4] 1024
  EXPECT_DOUBLE_EQ(spike.RowKurtosis(), 1.0);
  EXPECT_TRUE(std::isnan(Plain({2, 2}).Kurtosis()));
  EXPECT_TRUE(std::isnan(Plain({2}).RowKurtosis()));
  EXPECT_TRUE(std::isnan(Plain({}).Mean()));
}

TEST(ErrorSums, AreThoseOfPlainAdditions) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const size_t n : {0, 1, 8, 9, 100, 1001}) {
    std::vector<float> x(n), y(n);
    long double error2 = 0, error1 = 0, product = 0, square = 0, magnitude = 0;
    for (size_t i = 0; i < n; ++i) {
      x[i] = normal(random);
      y[i] = std::round(x[i] * 4) / 4;
      const long double error = static_cast<long double>(x[i]) - y[i];
      error2 += error * error;
      error1 += std::fabs(error);
      product += static_cast<long double>(x[i]) * y[i];
      magnitude += std::fabs(static_cast<long double>(x[i]) * y[i]);
      square += static_cast<long double>(y[i]) * y[i];
    }
    const ErrorSums sums = SumErrors(x, y);
    const long double bound = (static_cast<long double>(n) / 8 + 7) * 0x1p-53L;
    EXPECT_NEAR(sums.error2, error2, bound * error2);
    EXPECT_NEAR(sums.error1, error1, bound * error1);
    EXPECT_NEAR(sums.product, product, bound * magnitude);
    EXPECT_NEAR(sums.square, square, bound * square);
  }
}

TEST(ErrorSums, FiguresByHand) {
  EXPECT_DOUBLE_EQ(SignalToNoise(100.0, 1.0), 20.0);
  EXPECT_TRUE(std::isinf(SignalToNoise(1.0, 0.0)));
  EXPECT_TRUE(std::isnan(SignalToNoise(0.0, 0.0)));
  EXPECT_DOUBLE_EQ(Cosine(4.0, 9.0, 3.0), 0.5);
}

TEST(MapMeasures, EntropyOfAnEvenRowIsTheLogarithmOfItsLength) {
  EXPECT_NEAR(Entropy(std::vector<float>(100, 0.01f)), std::log(100.0), 1e-6);
  EXPECT_EQ(Entropy(std::vector<float>{0.0f, 1.0f, 0.0f}), 0.0);
  std::mt19937 random(1);
  std::exponential_distribution<float> law;
  std::vector<float> p(777);
  double sum = 0, expected = 0;
  for (float& v : p) sum += v = law(random);
  for (float& v : p) v = static_cast<float>(v / sum);
  for (const double v : p) expected -= v * std::log(v);
  EXPECT_NEAR(Entropy(p), expected, expected * 0x1p-22);
}

TEST(MapMeasures, NegativeMassIsOfTheNegativeEntries) {
  EXPECT_DOUBLE_EQ(NegativeMass(std::vector<float>{0.5f, -0.25f, 0.0f, -0.125f}), 0.375);
  EXPECT_EQ(NegativeMass({}), 0.0);
}

TEST(MapMeasures, SparsityByHand) {
  std::vector<float> row(130, 0.0f);  // blocks of 64, 64 and 2
  row[0] = 1.0f;
  row[1] = -0.05f;   // under 1e-1
  row[70] = 0.005f;  // under 1e-2: its block too
  row[129] = 0.2f;
  const Sparsity s = MeasureSparsity(row);
  EXPECT_EQ(s.blocks, 3);
  EXPECT_EQ(s.entries_under, (std::array<int64_t, 3>{126, 127, 128}));
  EXPECT_EQ(s.blocks_under, (std::array<int64_t, 3>{0, 1, 1}));
  EXPECT_EQ(s.entry_mass[0], 0.0);
  EXPECT_FLOAT_EQ(static_cast<float>(s.entry_mass[1]), 0.005f);
  EXPECT_FLOAT_EQ(static_cast<float>(s.entry_mass[2]), 0.055f);
  EXPECT_FLOAT_EQ(static_cast<float>(s.block_mass[2]), 0.005f);
}

TEST(MapMeasures, SparsityIsWhatPlainCountingGives) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (const size_t n : {1, 63, 64, 65, 500}) {
    std::vector<float> row(n);
    float largest = 0;
    for (float& v : row) v = std::pow(normal(random), 5.0f), largest = std::max(largest, std::fabs(v));
    const Sparsity s = MeasureSparsity(row);
    for (size_t i = 0; i < 3; ++i) {
      int64_t entries = 0;
      double mass = 0;
      for (const float v : row) {
        if (std::fabs(v) >= static_cast<float>(kSparsityShares[i] * largest)) continue;
        ++entries;
        mass += std::fabs(v);
      }
      EXPECT_EQ(s.entries_under[i], entries);
      EXPECT_NEAR(s.entry_mass[i], mass, mass * 64 * 0x1p-24);
    }
  }
}

TEST(MapMeasures, RowsOfZerosHaveNothingBelowAShare) {
  const Sparsity s = MeasureSparsity(std::vector<float>(64, 0.0f));
  EXPECT_EQ(s.entries_under, (std::array<int64_t, 3>{}));
}

}  // namespace
}  // namespace tare::row_measures_test
