// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/paired_runs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tare {
namespace {

// Five windows of ten tokens; per token the loss grows by 0.1 0.2 0.3 0.4 0.5, mean 0.3, s^2 = 0.025.
const WindowLosses kBefore{{10, 50, 20, 90, 30}, {10, 10, 10, 10, 10}};
const WindowLosses kAfter{{11, 52, 23, 94, 35}, {10, 10, 10, 10, 10}};

PairedRuns Change(const WindowLosses& before, const WindowLosses& after, OfMean of_mean) {
  return {.counts = before.counts, .sums = {before.sums, after.sums}, .signs = {-1, 1}, .of_mean = of_mean};
}

TEST(PairedRuns, SharedDifficultyCancels) {
  EXPECT_NEAR(PairedError(Change(kBefore, kAfter, OfMean::kItself)).value(), std::sqrt(0.025 / 5), 1e-12);
  EXPECT_EQ(PairedError(Change(kBefore, kBefore, OfMean::kItself)), 0.0);
}

// Of exp(mean), against the spread of what is drawn again from the windows with replacement: its own error is below 2
// %.
TEST(PairedRuns, PerplexityByTheDeltaMethod) {
  WindowLosses before, after;
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 200; ++i) {
    const double tokens = i % 4 == 0 ? 20 : 100, loss = 3 + 0.3 * normal(random);
    before.counts.push_back(tokens);
    before.sums.push_back(tokens * loss);
    after.sums.push_back(tokens * (loss + 0.02 + 0.02 * normal(random)));
  }
  after.counts = before.counts;
  double sum = 0, squares = 0;
  constexpr int kDraws = 4000;
  for (int draw = 0; draw < kDraws; ++draw) {
    double a = 0, b = 0, m = 0;
    for (size_t i = 0; i < 200; ++i) {
      const size_t w = random() % 200;
      a += before.sums[w];
      b += after.sums[w];
      m += before.counts[w];
    }
    const double change = std::exp(b / m) - std::exp(a / m);
    sum += change / kDraws;
    squares += change * change / kDraws;
  }
  const double spread = std::sqrt(squares - sum * sum);
  EXPECT_NEAR(PairedError(Change(before, after, OfMean::kExponential)).value() / spread, 1, 0.06);
}

TEST(PairedRuns, TheValueIsOfAllWindows) {
  EXPECT_NEAR(Contrast(Change(kBefore, kAfter, OfMean::kItself)), 0.3, 1e-12);
  EXPECT_NEAR(Contrast(Change(kBefore, kAfter, OfMean::kExponential)), std::exp(4.3) - std::exp(4), 1e-12);
}

// One model changes by 0.1 .. 0.5 per token and the other by 0 1 0 1 0.5: less it, 0.2 on the average of
// (-0.1, 0.8, -0.3, 0.6, 0), s^2 = (0.09 + 0.36 + 0.25 + 0.16 + 0.04) / 4.
TEST(PairedRuns, DifferencesOfDrops) {
  const std::vector<double> other{5, 5, 5, 5, 5}, moved{5, 15, 5, 15, 10};
  const PairedRuns runs{
      .counts = kBefore.counts, .sums = {kBefore.sums, kAfter.sums, other, moved}, .signs = {1, -1, -1, 1}};
  EXPECT_NEAR(Contrast(runs), 0.2, 1e-12);
  EXPECT_NEAR(PairedError(runs).value(), std::sqrt(0.9 / 4 / 5), 1e-12);
}

TEST(PairedRuns, TooFewUnitsHaveNoError) {
  EXPECT_FALSE(PairedError(Change({{1, 2, 3, 4}, {1, 1, 1, 1}}, {{2, 2, 2, 2}, {1, 1, 1, 1}}, OfMean::kItself)));
  EXPECT_FALSE(PairedError(Change({}, {}, OfMean::kItself)));
}

// Intervals compared with scipy 1.17.1 (scipy.stats.bootstrap, method="BCa", means of several runs of 200,000 draws).

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

TEST(Bootstrap, EqualSeedsGiveEqualIntervals) {
  const Interval once = BcaInterval(kSkewed, {}).value(), again = BcaInterval(kSkewed, {}).value();
  EXPECT_EQ(once.low, again.low);
  EXPECT_EQ(once.high, again.high);
  EXPECT_NE(BcaInterval(kSkewed, {.seed = 2})->high, once.high);
}

TEST(Bootstrap, ConstantUnitsHaveNoInterval) {
  PairedRuns same{.counts = std::vector<double>(9, 1.0), .sums = {std::vector<double>(9, 0.3)}, .signs = {1}};
  EXPECT_FALSE(BcaInterval(same, {}).has_value());
  PairedRuns few{.counts = {1, 1, 1, 1}, .sums = {{1, 2, 3, 4}}, .signs = {1}};
  EXPECT_FALSE(BcaInterval(few, {}).has_value());
}

}  // namespace

}  // namespace tare
