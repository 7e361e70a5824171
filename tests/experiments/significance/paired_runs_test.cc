// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/paired_runs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tare::paired_runs_test {
namespace {

// Four times five windows of ten tokens; per token the loss grows by 0.1 0.2 0.3 0.4 0.5, mean 0.3. Squared deviations
// 0.1 of five, 0.4 of all: s^2 = 0.4 / 19.
WindowLosses FourTimes(const std::vector<double>& sums) {
  WindowLosses losses;
  for (int i = 0; i < 4; ++i) losses.sums.insert(losses.sums.end(), sums.begin(), sums.end());
  losses.counts.assign(losses.sums.size(), 10);
  return losses;
}
const WindowLosses kBefore = FourTimes({10, 50, 20, 90, 30});
const WindowLosses kAfter = FourTimes({11, 52, 23, 94, 35});

PairedRuns Change(const WindowLosses& before, const WindowLosses& after, OfMean of_mean) {
  return {.counts = before.counts,
          .sums = {before.sums, after.sums},
          .signs = {-1, 1},
          .of_mean = of_mean,
          .kind = Units::kIndependent};
}
double ErrorOf(const PairedRuns& runs) { return PairedError(runs).value().error; }

TEST(PairedRuns, SharedDifficultyCancels) {
  EXPECT_NEAR(ErrorOf(Change(kBefore, kAfter, OfMean::kItself)), std::sqrt(0.4 / 19 / 20), 1e-12);
  EXPECT_EQ(ErrorOf(Change(kBefore, kBefore, OfMean::kItself)), 0.0);
}

// Their errors as windows of a text are those of the sums' waves.
TEST(PairedRuns, WindowsOfATextMayBeAlike) {
  PairedRuns runs = Change(kBefore, kAfter, OfMean::kItself);
  runs.kind = Units::kOfText;
  std::vector<double> changes;
  for (size_t i = 0; i < 20; ++i) changes.push_back((kAfter.sums[i] - kBefore.sums[i]) / 10);
  EXPECT_NEAR(ErrorOf(runs), ErrorOfMean(changes, Units::kOfText)->error, 1e-12);
  EXPECT_EQ(PairedError(runs)->degrees, 2);
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
  EXPECT_NEAR(ErrorOf(Change(before, after, OfMean::kExponential)) / spread, 1, 0.06);
}

TEST(PairedRuns, TheValueIsOfAllWindows) {
  EXPECT_NEAR(Contrast(Change(kBefore, kAfter, OfMean::kItself)), 0.3, 1e-12);
  EXPECT_NEAR(Contrast(Change(kBefore, kAfter, OfMean::kExponential)), std::exp(4.3) - std::exp(4), 1e-12);
}

// One model changes by 0.1 .. 0.5 per token and the other by 0 1 0 1 0.5: less it, 0.2 on the average of
// (-0.1, 0.8, -0.3, 0.6, 0), squares 0.09 + 0.36 + 0.25 + 0.16 + 0.04 about it, four times.
TEST(PairedRuns, DifferencesOfDrops) {
  const PairedRuns runs{
      .counts = kBefore.counts,
      .sums = {kBefore.sums, kAfter.sums, FourTimes({5, 5, 5, 5, 5}).sums, FourTimes({5, 15, 5, 15, 10}).sums},
      .signs = {1, -1, -1, 1},
      .kind = Units::kIndependent};
  EXPECT_NEAR(Contrast(runs), 0.2, 1e-12);
  EXPECT_NEAR(ErrorOf(runs), std::sqrt(3.6 / 19 / 20), 1e-12);
}

TEST(PairedRuns, TooFewUnitsHaveNoError) {
  PairedRuns runs = Change(kBefore, kAfter, OfMean::kItself);
  runs.counts.pop_back();
  for (std::vector<double>& sums : runs.sums) sums.pop_back();
  EXPECT_FALSE(PairedError(runs));
  EXPECT_FALSE(PairedError(Change({}, {}, OfMean::kItself)));
}

TEST(PairedRuns, TokensByTheirWindows) {
  const PairedRuns runs = ByWindow(std::vector<double>{1, 2, 4, 8}, std::vector<size_t>{3, 5, 3, 3});
  EXPECT_EQ(runs.counts, (std::vector<double>{3, 1}));
  EXPECT_EQ(runs.sums, (std::vector<std::vector<double>>{{13, 2}}));
}

}  // namespace

}  // namespace tare::paired_runs_test
