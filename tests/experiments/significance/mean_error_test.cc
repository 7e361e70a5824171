// SPDX-License-Identifier: Apache-2.0
// Against the header's formulas computed by numpy in another way: waves by a sum over t from 1, m1 and m2 by integrals
// over the chi distribution, Student's t by one over its angle, the ends by bisection of h. Coverage: calibration_test.
#include "experiments/significance/mean_error.h"

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tare::mean_error_test {
namespace {

// Skewed, in no order: 0.5, 3.4225, 2.7225, ...
std::vector<double> Units24() {
  std::vector<double> units;
  for (int i = 0; i < 24; ++i) units.push_back(std::pow(i * 37 % 41, 2) / 400 + (i % 7 == 0 ? 0.5 : 0));
  return units;
}
constexpr double kMean = 1.5371875;

TEST(MeanErrorTest, OfATextsWindows) {
  const MeanError error = ErrorOfMean(Units24(), Units::kOfText).value();
  EXPECT_EQ(error.degrees, 2);
  EXPECT_NEAR(error.error, 0.1987865320735249, 1e-13);
  EXPECT_NEAR(error.bend, 0.015442335586343192, 1e-10);
  EXPECT_NEAR(error.lag, 0.07919146454469075, 1e-8);
  EXPECT_NEAR(error.P(kMean), 0.012747226530645417, 1e-8);
  EXPECT_NEAR(error.P(kMean - 1), 0.1014269721534703, 1e-8);
  const Interval interval = error.Around(kMean);
  EXPECT_NEAR(interval.low, 0.7471045173406139, 1e-7);
  EXPECT_NEAR(interval.high, 2.474885521406844, 1e-7);
}

TEST(MeanErrorTest, OfIndependentUnits) {
  const MeanError error = ErrorOfMean(Units24(), Units::kIndependent).value();
  EXPECT_EQ(error.degrees, 23);
  EXPECT_NEAR(error.error, 0.26749099743164184, 1e-13);
  EXPECT_NEAR(error.P(kMean - 1), 0.038047564490927166, 1e-8);
  const Interval interval = error.Around(kMean);
  EXPECT_NEAR(interval.low, 1.030365879864096, 1e-7);
  EXPECT_NEAR(interval.high, 2.152836436561599, 1e-7);
}

// Without skewness it is Student's: of -9.5 .. 9.5, s^2 = 35, t at 19 degrees 2.0930240544082634.
TEST(MeanErrorTest, SymmetricUnitsHaveStudentsInterval) {
  std::vector<double> units;
  for (int i = 0; i < 20; ++i) units.push_back(i - 9.5);
  const MeanError error = ErrorOfMean(units, Units::kIndependent).value();
  EXPECT_NEAR(error.error, std::sqrt(35.0 / 20), 1e-13);
  EXPECT_NEAR(error.Around(0).high, 2.0930240544082634 * std::sqrt(35.0 / 20), 1e-12);
  EXPECT_NEAR(error.P(0), 1, 1e-12);
}

// p is 0.1 at the ends of the 90 % interval, of which each side is a test at 5 %.
TEST(MeanErrorTest, IntervalsOfOtherShares) {
  const MeanError error = ErrorOfMean(Units24(), Units::kOfText).value();
  const Interval interval = error.Around(kMean, 0.9);
  EXPECT_NEAR(error.P(kMean - interval.low), 0.1, 1e-12);
  EXPECT_NEAR(error.P(kMean - interval.high), 0.1, 1e-12);
  EXPECT_LT(error.Around(kMean).low, interval.low);
  EXPECT_GT(error.Around(kMean).high, interval.high);
}

// A slow wave through the windows is what neighbours share, a fast one is not.
TEST(MeanErrorTest, SlowWavesAreErrorsOfTheMean) {
  std::vector<double> slow, fast;
  for (int t = 0; t < 40; ++t) slow.push_back(t < 20 ? 1 : -1), fast.push_back(t % 2 == 0 ? 1 : -1);
  const double independent = std::sqrt(40.0 / 39 / 40);
  EXPECT_GT(ErrorOfMean(slow, Units::kOfText)->error, 2 * independent);
  EXPECT_LT(ErrorOfMean(fast, Units::kOfText)->error, 0.2 * independent);
}

TEST(MeanErrorTest, DegreesGrowWithTheWindows) {
  const auto degrees = [](size_t n) { return ErrorOfMean(std::vector<double>(n, 1), Units::kOfText)->degrees; };
  EXPECT_EQ(degrees(20), 2);
  EXPECT_EQ(degrees(40), 4);
  EXPECT_EQ(degrees(64), 6);     // 0.4 x 16 = 6.4
  EXPECT_EQ(degrees(1000), 40);  // 0.4 x 100, and not 100
}

TEST(MeanErrorTest, TooFewAreRefused) {
  EXPECT_FALSE(ErrorOfMean(std::vector<double>(kFewestUnits - 1, 1), Units::kOfText));
  EXPECT_FALSE(ErrorOfMean(std::vector<double>(kFewestUnits - 1, 1), Units::kIndependent));
  EXPECT_EQ(FewUnitsText(10, Units::kOfText),
            "10 windows are too few for an error: expected 20; try more tokens or a shorter --window");
  EXPECT_EQ(FewUnitsText(1, Units::kIndependent), "1 sample is too few for an error: expected 20; try more items");
}

// One unit far from all others: the bend is near its most, and the ends stay in order.
TEST(MeanErrorTest, OneOutlierOfMany) {
  std::vector<double> units(100, 0.0);
  units[50] = 1;
  for (const Units kind : {Units::kOfText, Units::kIndependent}) {
    const Interval interval = ErrorOfMean(units, kind)->Around(0.01);
    EXPECT_LT(interval.low, 0.01);
    EXPECT_GT(interval.high, 0.03);  // longer to the side of the outlier
    EXPECT_TRUE(std::isfinite(interval.high));
  }
}

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

// The error of exp(mean) is near the spread over windows that are drawn again with replacement. The spread's own error
// is below 2 %.
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
  struct Token {
    double value;
    size_t window;
  };
  const Token tokens[] = {{1, 3}, {2, 5}, {4, 3}, {8, 3}};
  const PairedRuns runs = ByWindow(tokens, [](const Token& token) { return token.value; });
  EXPECT_EQ(runs.counts, (std::vector<double>{3, 1}));
  EXPECT_EQ(runs.sums, (std::vector<std::vector<double>>{{13, 2}}));
}

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
}  // namespace tare::mean_error_test
