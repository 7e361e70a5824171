// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/error_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace tare {
namespace {

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

}  // namespace
}  // namespace tare
