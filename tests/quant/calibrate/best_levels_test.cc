// SPDX-License-Identifier: Apache-2.0
// Against every division into runs, against the levels of a normal law, and by hand.
#include "quant/calibrate/clipping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "quant/base/message.h"
#include "quant/format/grid.h"
#include "tests/support/call.h"

namespace tare::best_levels_test {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using ::testing::ThrowsMessage;

LevelCounts CountsOf(const std::vector<float>& values) {
  LevelCounts counts;
  counts.Add(values, 0, 1);
  return counts;
}

// The least loss of sorted values in so many runs, by trying all ends of the first.
double LeastLoss(const std::vector<float>& sorted, size_t begin, int levels) {
  if (begin == sorted.size()) return 0;
  if (levels == 0) return std::numeric_limits<double>::infinity();
  double least = std::numeric_limits<double>::infinity(), sum = 0, squares = 0;
  for (size_t end = begin; end < sorted.size(); ++end) {
    sum += sorted[end];
    squares += double{sorted[end]} * sorted[end];
    const double loss = squares - sum * sum / static_cast<double>(end + 1 - begin);
    least = std::min(least, loss + LeastLoss(sorted, end + 1, levels - 1));
  }
  return least;
}

TEST(LevelCounts, ValuesAreCountedAtTheirBinsMiddle) {
  LevelCounts counts;
  counts.Add(std::vector<float>{3.0f, 3.0001f, 5.0f, -1e30f, 1e30f, 2.9999f}, 3, 2);  // 0, 0.0002, 4, ends, -0.0002
  EXPECT_EQ(counts.at(2048), 2);
  EXPECT_EQ(counts.at(2047), 1);
  EXPECT_EQ(counts.at(2048 + 4 * 128), 1);
  EXPECT_EQ(counts.at(0), 1);
  EXPECT_EQ(counts.at(LevelCounts::kBins - 1), 1);
  EXPECT_EQ(counts.total(), 6);
  EXPECT_EQ(LevelCounts::Middle(2048), 1.0 / 256);
  EXPECT_EQ(LevelCounts::Middle(0), -16 + 1.0 / 256);
  LevelCounts twice = counts;
  twice += counts;
  EXPECT_EQ(twice.at(2048), 4);
}

TEST(BestLevels, NoDivisionLosesLess) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> bin(-300, 300);
  for (int levels = 2; levels <= 5; ++levels) {
    std::vector<float> values(18);
    for (float& x : values) x = static_cast<float>(bin(random)) / 128 + 1.0f / 256;  // middles of bins
    std::ranges::sort(values);
    const LevelCounts counts = CountsOf(values);
    const std::vector<float> best = BestLevels(counts, levels);
    // Levels are rounded to 0.001, which adds at most 0.0005^2 to the mean.
    const double least = LeastLoss(values, 0, levels) / static_cast<double>(values.size());
    EXPECT_NEAR(LevelLoss(counts, best), least, 2.5e-7 + 1e-12) << levels;
    EXPECT_GE(LevelLoss(counts, best), least - 1e-12) << levels;
  }
}

// A million values: the levels of Lloyd and Max, within their sampling error and half a bin.
TEST(BestLevels, OfANormalLaw) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> values(1000000);
  for (float& x : values) x = normal(random);
  EXPECT_THAT(BestLevels(CountsOf(values), 8), Pointwise(FloatNear(0.02f), kLloydMax3Levels));
  EXPECT_NEAR(LevelLoss(CountsOf(values), kLloydMax3Levels), 0.0345, 0.0005);
}

TEST(BestLevels, AsManyLevelsAsValuesLoseNothing) {
  const LevelCounts counts = CountsOf({-1.0f, 0.5f, 0.5f, 2.0f});
  EXPECT_THAT(BestLevels(counts, 3), ElementsAre(-0.996f, 0.504f, 2.004f));  // middles
  EXPECT_NEAR(LevelLoss(counts, BestLevels(counts, 3)), 0, 1e-6);
  EXPECT_THAT(Call([&] { BestLevels(counts, 4); }),
              ThrowsMessage<Error>(HasSubstr("got values in 3 of the bins, expected at least 4")));
  EXPECT_EQ(LevelLoss(LevelCounts(), kLloydMax2Levels), 0);
}

}  // namespace
}  // namespace tare::best_levels_test
