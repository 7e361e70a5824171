// SPDX-License-Identifier: Apache-2.0
// The frontier against all choices, one by one.
#include "experiments/studies/search/frontier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace tare::search_frontier_test {
namespace {

using ::testing::ElementsAre;
using Parts = std::vector<std::vector<LevelCost>>;

// Every choice of one level per part.
std::vector<LevelCost> AllChoices(const Parts& parts) {
  std::vector<LevelCost> sums{{0, 0}};
  for (const auto& levels : parts) {
    std::vector<LevelCost> next;
    for (const LevelCost& sum : sums) {
      for (const LevelCost& level : levels)
        next.push_back({sum.cost + level.cost, sum.loss + std::max(level.loss, 0.0)});
    }
    sums = next;
  }
  return sums;
}

void ExpectHullOf(const Parts& parts) {
  const std::vector<FrontierPoint> frontier = Frontier(parts);
  const std::vector<LevelCost> all = AllChoices(parts);
  double least_loss = 1e9, least_cost = 1e9;
  for (const LevelCost& c : all) least_loss = std::min(least_loss, c.loss), least_cost = std::min(least_cost, c.cost);
  EXPECT_NEAR(frontier.front().loss, least_loss, 1e-12);
  EXPECT_NEAR(frontier.back().cost, least_cost, 1e-12);
  for (size_t i = 0; i + 1 < frontier.size(); ++i) {
    const FrontierPoint &a = frontier[i], &b = frontier[i + 1];
    ASSERT_LT(b.cost, a.cost);
    ASSERT_GE(b.loss, a.loss);
    // No choice on the near side of the line from a to b.
    for (const LevelCost& c : all) {
      const double side = (c.loss - a.loss) * (a.cost - b.cost) - (b.loss - a.loss) * (a.cost - c.cost);
      ASSERT_GE(side, -1e-9);
    }
  }
  for (const FrontierPoint& point : frontier) {  // and each is a choice
    double cost = 0, loss = 0;
    for (size_t part = 0; part < parts.size(); ++part) {
      cost += parts[part][point.levels[part]].cost;
      loss += std::max(parts[part][point.levels[part]].loss, 0.0);
    }
    ASSERT_NEAR(cost, point.cost, 1e-12);
    ASSERT_NEAR(loss, point.loss, 1e-12);
  }
}

TEST(FrontierTest, NoChoiceLiesBelowIt) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> sizes(1, 4), costs(1, 9), losses(-1, 12);  // few values: ties, and losses below 0
  for (int trial = 0; trial < 300; ++trial) {
    Parts parts(static_cast<size_t>(sizes(random)));
    for (auto& levels : parts) {
      for (int i = sizes(random); i > 0; --i) levels.push_back({costs(random) * 1.0, losses(random) * 0.5});
    }
    ExpectHullOf(parts);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(FrontierTest, TheBestRatioComesFirst) {
  // b loses 1 for 4 saved, a 2 for 4; a's middle level is above its hull and is left out.
  const Parts parts{{{8, 0}, {6, 1.5}, {4, 2}}, {{8, 0}, {4, 1}}};
  const std::vector<FrontierPoint> frontier = Frontier(parts);
  ASSERT_EQ(frontier.size(), 3u);
  EXPECT_THAT(frontier[0].levels, ElementsAre(0, 0));
  EXPECT_THAT(frontier[1].levels, ElementsAre(0, 1));
  EXPECT_EQ(frontier[1].moved, 1u);
  EXPECT_THAT(frontier[2].levels, ElementsAre(2, 1));
  EXPECT_EQ(frontier[2].cost, 8);
  EXPECT_EQ(frontier[2].loss, 3);
}

TEST(FrontierTest, LevelsWithoutLossAreTakenAtOnce) {
  const std::vector<FrontierPoint> frontier = Frontier({{{8, 0}, {4, -1e-9}}, {{8, 0}}});
  ASSERT_EQ(frontier.size(), 1u);
  EXPECT_THAT(frontier[0].levels, ElementsAre(1, 0));
  EXPECT_EQ(frontier[0].loss, 0);
}

}  // namespace
}  // namespace tare::search_frontier_test
