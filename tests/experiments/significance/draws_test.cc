// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/draws.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare::draws_test {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// mt19937_64's first numbers of seed 1, as the standard lays them down, times n / 2^64: 2469588189546311528,
// 2516265689700432462, 8323445853463659930, ...
TEST(Draws, AreTheSameEverywhere) {
  Draws draws(1);
  EXPECT_EQ(draws.Below(1000), 133u);
  EXPECT_EQ(draws.Below(1000), 136u);
  EXPECT_EQ(draws.Below(1000), 451u);
}

TEST(Draws, ShufflesAndSamples) {
  Draws draws(7);
  std::vector<int> values{1, 2, 3, 4, 5, 6, 7, 8, 9};
  draws.Shuffle(values);
  EXPECT_THAT(values, UnorderedElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_FALSE(std::ranges::is_sorted(values));
  EXPECT_THAT(draws.Sample(3, 3), UnorderedElementsAre(0, 1, 2));
  EXPECT_THAT(draws.Sample(1, 1), ElementsAre(0));
  EXPECT_TRUE(draws.Sample(5, 0).empty());
}

// 6,000 draws of a place below 6: each near 1,000, by five standard errors of 29.
TEST(Draws, AreEven) {
  Draws draws(3);
  std::vector<int> counts(6), firsts(3);
  for (int i = 0; i < 6000; ++i) ++counts[draws.Below(6)];
  for (const int count : counts) EXPECT_NEAR(count, 1000, 145);
  for (int i = 0; i < 3000; ++i) ++firsts[draws.Sample(3, 2)[1]];
  for (const int count : firsts) EXPECT_NEAR(count, 1000, 130);
}

}  // namespace
}  // namespace tare::draws_test
