// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/rotary_factors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace tare::rotary_factors_test {
namespace {

using namespace gguf;

// As transformers computes them.
std::vector<float> Divisors(const RotaryFactors& r, double theta, int count) {
  std::vector<float> divisors;
  for (int i = 0; i < count; ++i) {
    const double wave = 2 * std::numbers::pi * std::pow(theta, static_cast<double>(i) / count);
    const double s = (r.original / wave - r.low) / (r.high - r.low);
    divisors.push_back(static_cast<float>(wave < r.original / r.high  ? 1
                                          : wave > r.original / r.low ? r.factor
                                                                      : 1 / ((1 - s) / r.factor + s)));
  }
  return divisors;
}

TEST(GgufRotaryFactors, OfLlama3AreExact) {
  const auto found = FindRotaryFactors(Divisors({.factor = 32}, 5e5, 32), 5e5);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->factor, 32);
  EXPECT_EQ(found->original, 8192);
  EXPECT_EQ(found->high, 4);
}

TEST(GgufRotaryFactors, OfOthersAreFoundFromTheDivisors) {
  const auto found = FindRotaryFactors(Divisors({.factor = 8, .high = 8, .original = 4096}, 5e5, 64), 5e5);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->factor, 8);
  EXPECT_EQ(found->original, 4096);
  EXPECT_EQ(found->high, 8);
}

TEST(GgufRotaryFactors, OfFewFrequenciesComputeTheSame) {
  const RotaryFactors made{.factor = 8, .original = 32};
  const std::vector<float> divisors = Divisors(made, 5e5, 8);  // 1, then 8: none between
  const auto found = FindRotaryFactors(divisors, 5e5);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(Divisors(*found, 5e5, 8), divisors);
}

TEST(GgufRotaryFactors, OtherDivisorsAreNone) {
  std::vector<float> divisors = Divisors({.factor = 32}, 5e5, 32);
  divisors[20] *= 1.01f;
  EXPECT_FALSE(FindRotaryFactors(divisors, 5e5));
  divisors[20] = NAN;
  EXPECT_FALSE(FindRotaryFactors(divisors, 5e5));
  EXPECT_FALSE(FindRotaryFactors({}, 5e5));
  EXPECT_FALSE(FindRotaryFactors(std::vector<float>(8, 1.0f), 5e5));
}

}  // namespace
}  // namespace tare::rotary_factors_test
