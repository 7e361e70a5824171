// SPDX-License-Identifier: Apache-2.0
// The frontier against all choices, one by one.
//
// The choice within a budget against all choices, one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <random>

#include "experiments/studies/search/search.h"

namespace tare::search_frontier_test {
namespace {

using ::testing::ElementsAre;
using Parts = std::vector<std::vector<LevelCost>>;

std::vector<SearchPart> WithLevels(const Parts& parts) {
  std::vector<SearchPart> all(parts.size());
  for (size_t part = 0; part < parts.size(); ++part) {
    for (const LevelCost& level : parts[part]) all[part].levels.push_back({.plan = {}, .of = level});
  }
  return all;
}
std::vector<FrontierPoint> FrontierOf(const Parts& parts) { return Frontier(WithLevels(parts)); }
std::optional<FrontierPoint> ChoiceWithin(double budget, const Parts& parts) {
  return LeastLossWithin(budget, WithLevels(parts));
}

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
  const std::vector<FrontierPoint> frontier = FrontierOf(parts);
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
  const std::vector<FrontierPoint> frontier = FrontierOf(parts);
  ASSERT_EQ(frontier.size(), 3u);
  EXPECT_THAT(frontier[0].levels, ElementsAre(0, 0));
  EXPECT_THAT(frontier[1].levels, ElementsAre(0, 1));
  EXPECT_EQ(frontier[1].moved, 1u);
  EXPECT_THAT(frontier[2].levels, ElementsAre(2, 1));
  EXPECT_EQ(frontier[2].cost, 8);
  EXPECT_EQ(frontier[2].loss, 3);
}

TEST(FrontierTest, LevelsWithoutLossAreTakenAtOnce) {
  const std::vector<FrontierPoint> frontier = FrontierOf({{{8, 0}, {4, -1e-9}}, {{8, 0}}});
  ASSERT_EQ(frontier.size(), 1u);
  EXPECT_THAT(frontier[0].levels, ElementsAre(1, 0));
  EXPECT_EQ(frontier[0].loss, 0);
}

using ::testing::ElementsAre;
using Parts = std::vector<std::vector<LevelCost>>;

// The least loss of any choice within the budget; infinite without one.
double LeastOfAll(const Parts& parts, double budget, size_t part = 0) {
  if (part == parts.size()) return budget >= 0 ? 0 : std::numeric_limits<double>::infinity();
  double least = std::numeric_limits<double>::infinity();
  for (const LevelCost& level : parts[part])
    least = std::min(least, std::max(level.loss, 0.0) + LeastOfAll(parts, budget - level.cost, part + 1));
  return least;
}

double CheapestOf(const Parts& parts) {
  double cost = 0;
  for (const auto& levels : parts) cost += std::ranges::min(levels, {}, &LevelCost::cost).cost;
  return cost;
}

// The bound of LeastLossWithin: as good as the best for a budget that is smaller by a step per part.
TEST(BudgetTest, LosesNoMoreThanTheBestOfASlightlySmallerBudget) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> sizes(1, 5);
  std::uniform_real_distribution<double> costs(1, 1e9), losses(-0.1, 1), shares(0, 1.2);
  for (int trial = 0; trial < 200; ++trial) {
    Parts parts(static_cast<size_t>(sizes(random)));
    for (auto& levels : parts) {
      for (int i = sizes(random); i > 0; --i) levels.push_back({costs(random), losses(random)});
    }
    const double least = CheapestOf(parts), budget = least * (0.9 + shares(random));
    const std::optional<FrontierPoint> choice = ChoiceWithin(budget, parts);
    ASSERT_EQ(choice.has_value(), budget >= least);
    if (!choice) continue;
    double cost = 0, loss = 0;
    for (size_t part = 0; part < parts.size(); ++part) {
      cost += parts[part][choice->levels[part]].cost;
      loss += std::max(parts[part][choice->levels[part]].loss, 0.0);
    }
    EXPECT_LE(cost, budget);
    EXPECT_DOUBLE_EQ(cost, choice->cost);
    EXPECT_DOUBLE_EQ(loss, choice->loss);
    const double steps = static_cast<double>(parts.size()) * (budget - least) / 65536;
    EXPECT_LE(loss, LeastOfAll(parts, budget - steps) + 1e-12);
    EXPECT_GE(loss, LeastOfAll(parts, budget) - 1e-12);
  }
}

// Whole costs, as bits of matrices are, up to the budget itself.
TEST(BudgetTest, OfWholeCostsTheBest) {
  std::mt19937 random(2);
  std::uniform_int_distribution<int> sizes(1, 5), units(1, 9);
  std::uniform_real_distribution<double> losses(0, 1);
  for (int trial = 0; trial < 200; ++trial) {
    Parts parts(static_cast<size_t>(sizes(random)));
    double budget = 0;
    for (auto& levels : parts) {
      for (int i = sizes(random); i > 0; --i) levels.push_back({448.0 * units(random) + 7, losses(random)});
      budget += levels.back().cost;
    }
    const std::optional<FrontierPoint> choice = ChoiceWithin(budget, parts);
    ASSERT_TRUE(choice);
    EXPECT_LE(choice->cost, budget);
    EXPECT_NEAR(choice->loss, LeastOfAll(parts, budget), 1e-12);
  }
}

// The hull's corners lie on both sides of this budget: 6 is above the line from 8 to 4, and is what fits.
TEST(BudgetTest, TakesLevelsAboveTheHull) {
  const std::optional<FrontierPoint> choice = ChoiceWithin(6, {{{8, 0}, {6, 1.5}, {4, 2}}});
  ASSERT_TRUE(choice);
  EXPECT_THAT(choice->levels, ElementsAre(1));
}

TEST(BudgetTest, OfEqualLossesTheCheaper) {
  const std::optional<FrontierPoint> choice = ChoiceWithin(20, {{{8, 0}, {4, -1e-9}}, {{8, 0}, {2, 0}}});
  ASSERT_TRUE(choice);
  EXPECT_THAT(choice->levels, ElementsAre(1, 1));
  EXPECT_EQ(choice->loss, 0);
}

TEST(BudgetTest, NothingLeftIsTheCheapestLevels) {
  const std::optional<FrontierPoint> choice = ChoiceWithin(5, {{{8, 0}, {4, 1}}, {{1, 1}, {1, 0.5}, {9, 0}}});
  ASSERT_TRUE(choice);
  EXPECT_THAT(choice->levels, ElementsAre(1, 1));
  EXPECT_FALSE(ChoiceWithin(4.9, {{{8, 0}, {4, 1}}, {{1, 1}}}));
}

}  // namespace
}  // namespace tare::search_frontier_test
