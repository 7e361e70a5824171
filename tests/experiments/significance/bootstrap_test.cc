// SPDX-License-Identifier: Apache-2.0
// Intervals beside those of scipy 1.17.1 (scipy.stats.bootstrap, method="BCa", means of several runs of 200,000 draws).
#include "experiments/significance/bootstrap.h"

#include <gtest/gtest.h>

namespace tare {
namespace {

// Skewed: the upper end is twice as far as the lower.
const PairedRuns kSkewed{.counts = std::vector<double>(12, 1.0),
                         .sums = {{0.1, 0.2, 0.05, 0.4, 1.9, 0.3, 0.15, 0.02, 0.7, 0.25, 0.33, 0.08}},
                         .signs = {1}};
// exp(sum b / M) - exp(sum a / M) of windows of unlike length.
const PairedRuns kWindows{
    .counts = {10, 12, 8, 10, 20, 10, 9, 11, 15, 10},
    .sums = {{30, 35, 26, 28, 66, 31, 25, 36, 44, 29}, {31, 36.5, 26.4, 30, 68, 31.2, 25.5, 37.7, 44.6, 32}},
    .signs = {-1, 1},
    .of_mean = OfMean::kExponential};

TEST(Bootstrap, EndsAreThoseOfScipy) {
  const Resampling many{.draws = 200000, .seed = 3};
  const Interval skewed = BcaInterval(kSkewed, many).value();
  EXPECT_NEAR(skewed.low, 0.19333, 0.003);
  EXPECT_NEAR(skewed.high, 0.8794, 0.02);
  const Interval windows = BcaInterval(kWindows, many).value();
  EXPECT_NEAR(Contrast(kWindows), 2.4902538088467594, 1e-12);
  EXPECT_NEAR(windows.low, 1.5676, 0.02);
  EXPECT_NEAR(windows.high, 3.7263, 0.02);
}

// 3 items gained, 12 lost of 60: draws are multiples of 1/60.
TEST(Bootstrap, ItemsAreUnitsToo) {
  PairedRuns items{.counts = std::vector<double>(60, 1.0), .sums = {{}, {}}, .signs = {-1, 1}};
  for (int i = 0; i < 60; ++i) {
    items.sums[0].push_back(i < 12 ? 1 : 0);
    items.sums[1].push_back(i >= 57 ? 1 : 0);
  }
  const Interval interval = BcaInterval(items, {.draws = 50000}).value();
  EXPECT_NEAR(interval.low, -0.2792, 1.0 / 60 + 1e-9);
  EXPECT_NEAR(interval.high, -0.0333, 1.0 / 60 + 1e-9);
}

TEST(Bootstrap, ASeedGivesTheSameAgain) {
  const Interval once = BcaInterval(kSkewed, {}).value(), again = BcaInterval(kSkewed, {}).value();
  EXPECT_EQ(once.low, again.low);
  EXPECT_EQ(once.high, again.high);
  EXPECT_NE(BcaInterval(kSkewed, {.seed = 2})->high, once.high);
}

TEST(Bootstrap, WhereNothingVariesThereIsNone) {
  PairedRuns same{.counts = std::vector<double>(9, 1.0), .sums = {std::vector<double>(9, 0.3)}, .signs = {1}};
  EXPECT_FALSE(BcaInterval(same, {}).has_value());
  PairedRuns few{.counts = {1, 1, 1, 1}, .sums = {{1, 2, 3, 4}}, .signs = {1}};
  EXPECT_FALSE(BcaInterval(few, {}).has_value());
}

}  // namespace
}  // namespace tare
