// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/sample_mean.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

namespace tare::sample_mean_test {
namespace {

// 2, 5, -1: mean 2, deviation 3; t of two degrees 4.302653, over sqrt(3).
TEST(SampleMean, OfThree) {
  const SampleMean of = MeanOfSamples(std::array{2.0, 5.0, -1.0});
  EXPECT_NEAR(of.mean, 2, 1e-12);
  EXPECT_NEAR(of.deviation, 3, 1e-12);
  EXPECT_NEAR(of.interval.low, 2 - 4.302653 * 3 / std::sqrt(3.0), 1e-5);
  EXPECT_NEAR(of.interval.high, 2 + 4.302653 * 3 / std::sqrt(3.0), 1e-5);
}

// 4,000 sets of five: a share of 0.95 is known to 0.0034.
TEST(SampleMean, IntervalCoversTheMean) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal(3, 2);
  int covered = 0;
  constexpr int kSets = 4000;
  for (int set = 0; set < kSets; ++set) {
    std::array<double, 5> samples{};
    for (double& x : samples) x = normal(random);
    const Interval interval = MeanOfSamples(samples).interval;
    covered += interval.low <= 3 && 3 <= interval.high ? 1 : 0;
  }
  EXPECT_NEAR(covered / static_cast<double>(kSets), 0.95, 0.014);
}

}  // namespace
}  // namespace tare::sample_mean_test
