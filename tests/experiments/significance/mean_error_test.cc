// SPDX-License-Identifier: Apache-2.0
// Against the header's formulas computed by numpy in another way: waves by a sum over t from 1, m1 and m2 by integrals
// over the chi distribution, Student's t by one over its angle, the ends by bisection of h. Coverage: calibration_test.
#include "experiments/significance/mean_error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

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

}  // namespace
}  // namespace tare::mean_error_test
