// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/set_apart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tare::set_apart_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Format kWithMinimum = WithRange(Format::kInt2, CodeRange::kMin);

TEST(SetApart, CountsUpAndAtLeastOne) {
  EXPECT_EQ(OutliersOf(256, 1), 3);
  EXPECT_EQ(OutliersOf(32, 1), 1);
  EXPECT_EQ(OutliersOf(200, 50), 100);
  EXPECT_EQ(OutliersOf(1, 0.01), 1);
  EXPECT_EQ(OutliersOf(10000, 0.07), 7);
}

TEST(SetApart, TakesTheLargestMagnitudesAndPutsThemBack) {
  const std::vector<float> values{1, -9, 2, 7, -3, 9};
  const SetApart apart(values, Format::kInt4, 33);  // two of six
  EXPECT_THAT(apart.others(), ElementsAre(1, 2, 7, -3));
  std::vector<float> rounded(values.size(), 0.0f);
  apart.Restore(rounded);
  EXPECT_THAT(rounded, ElementsAre(0, -9, 0, 0, 0, 9));
}

TEST(SetApart, OfEquallyFarOnesTheFirst) {
  const std::vector<float> values{3, -3, 3, 1};
  EXPECT_THAT(SetApart(values, Format::kInt4, 25).others(), ElementsAre(-3, 3, 1));
}

// A channel that leans to one side has no large magnitudes, but a far end.
TEST(SetApart, WithAMinimumFarFromTheMedian) {
  const std::vector<float> values{10, 11, 12, 11, 2, 10};
  EXPECT_THAT(SetApart(values, kWithMinimum, 1).others(), ElementsAre(10, 11, 12, 11, 10));
  EXPECT_THAT(SetApart(values, Format::kInt4, 1).others(), ElementsAre(10, 11, 11, 2, 10));
}

TEST(SetApart, AGroupOfOneIsAnOutlier) {
  EXPECT_THAT(SetApart(std::vector{4.0f}, kWithMinimum, 1).others(), IsEmpty());
}

}  // namespace
}  // namespace tare::set_apart_test
