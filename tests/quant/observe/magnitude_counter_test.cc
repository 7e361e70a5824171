// SPDX-License-Identifier: Apache-2.0
// Against the histogram filled one value at a time.
#include "quant/observe/magnitude_counter.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace tare {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

MagnitudeHistogram OneByOne(std::span<const float> values) {
  MagnitudeHistogram histogram;
  for (const float value : values) {
    if (std::isfinite(value)) histogram.Add(value);
  }
  return histogram;
}

MagnitudeHistogram Counted(MagnitudeCounter& counter, std::span<const float> values) {
  MagnitudeHistogram histogram;
  counter.Count(values);
  counter.FlushInto(histogram);
  return histogram;
}

TEST(MagnitudeCounter, CountsRunsOfEveryLength) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  MagnitudeCounter counter;
  for (size_t n = 0; n < 40; ++n) {
    std::vector<float> values(n + 3);
    for (float& value : values) value = normal(random);
    // Three starts, so that runs are not aligned either.
    for (size_t start = 0; start < 3; ++start) {
      const std::span<const float> run = std::span(values).subspan(start, n);
      EXPECT_EQ(Counted(counter, run), OneByOne(run)) << n << ' ' << start;
    }
  }
}

TEST(MagnitudeCounter, CountsEveryBitPatternOfTheBins) {
  std::vector<float> values;
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (const uint32_t low : {0u, 0x8000u, 0xffffu}) values.push_back(std::bit_cast<float>(high << 16 | low));
  }
  MagnitudeCounter counter;
  EXPECT_EQ(Counted(counter, values), OneByOne(values));
  EXPECT_EQ(Counted(counter, {}), MagnitudeHistogram());  // the non-finite ones are not left behind
}

TEST(MagnitudeCounter, FindsZerosFarBelowTheRest) {
  const std::vector<float> values{0.0f, -1e30f, 0.0f, 1e-30f, 1e-45f, 5.0f};
  MagnitudeCounter counter;
  EXPECT_EQ(Counted(counter, values), OneByOne(values));
  EXPECT_EQ(Counted(counter, values), OneByOne(values));
}

TEST(MagnitudeCounter, GathersRunsUntilTheFlush) {
  const std::vector<float> small{1e-20f, 2e-20f};
  const std::vector<float> large{-3e20f};
  MagnitudeCounter counter;
  counter.Count(large);
  counter.Count(small);
  EXPECT_EQ(counter.pending(), 3u);
  MagnitudeHistogram histogram;
  counter.FlushInto(histogram);
  EXPECT_EQ(histogram, OneByOne(std::vector<float>{1e-20f, 2e-20f, -3e20f}));
  EXPECT_EQ(counter.pending(), 0u);
}

TEST(MagnitudeCounter, ReturnsTheLargestMagnitudeOfTheRun) {
  MagnitudeCounter counter;
  EXPECT_EQ(counter.Count({}), 0.0f);
  EXPECT_EQ(counter.Count(std::vector<float>{1.0f, -3.0f, 2.0f}), 3.0f);
  EXPECT_EQ(counter.Count(std::vector<float>{1.0f}), 1.0f);
  EXPECT_EQ(counter.Count(std::vector<float>{-0.0f}), 0.0f);
  EXPECT_EQ(counter.Count(std::vector<float>{1.0f, -kInfinity, 5.0f}), kInfinity);
  EXPECT_TRUE(std::isnan(counter.Count(std::vector<float>{kInfinity, -kNan, 5.0f})));
}

TEST(MagnitudeCounter, AThousandRepeatsOfOneValueAreAThousand) {
  MagnitudeCounter counter;
  EXPECT_EQ(Counted(counter, std::vector<float>(1001, 3.0f)).Counts(),
            (std::vector<std::pair<int, uint64_t>>{{MagnitudeHistogram::BinOf(3.0f), 1001}}));
}

}  // namespace
}  // namespace tare
