// SPDX-License-Identifier: Apache-2.0
// Indices and texts alone; plan_test.cc tests matching in whole plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/plan/plan.h"

namespace tare::plan_match_test {
namespace {

TEST(Selects, AllOrThoseInARange) {
  EXPECT_TRUE(Selects({}, 7));
  EXPECT_TRUE(Selects({}, std::nullopt));
  const IndexRanges ranges{{0, 0}, {3, 5}};
  for (const int inside : {0, 3, 4, 5}) EXPECT_TRUE(Selects(ranges, inside)) << inside;
  for (const int outside : {1, 2, 6}) EXPECT_FALSE(Selects(ranges, outside)) << outside;
  EXPECT_FALSE(Selects(ranges, std::nullopt));
}

TEST(RuleOptions, RunsOfARotationAreOfTheOption) {
  const Plan plan = Plan::Parse("down_proj.w=int4/channel + mse+hadamard16,down_proj.in=int8/token+hadamard");
  EXPECT_EQ(plan.canonical(), "down_proj.w=int4/channel+hadamard16+mse,down_proj.in=int8/token+hadamard");
  EXPECT_EQ(plan.rules()[0].options.hadamard, RotatedRuns{16});
  EXPECT_EQ(plan.rules()[1].options.hadamard, RotatedRuns{});
  EXPECT_EQ(plan.rules()[0].options.Rotation(64)->run(), 16);
  EXPECT_EQ(plan.rules()[1].options.Rotation(64)->run(), 64);
  EXPECT_EQ(plan.rules()[1].options.Rotation(16), plan.rules()[0].options.Rotation(16)) << "one run, all of the row";
  EXPECT_EQ(RuleOptions{}.Rotation(64), nullptr);
}

TEST(SplitRules, AtCommasOutsideBrackets) {
  EXPECT_THAT(SplitRules("q,attn_logits[l0,m1],k"), testing::ElementsAre("q", "attn_logits[l0,m1]", "k"));
  EXPECT_THAT(SplitRules("q[l0,"), testing::ElementsAre("q[l0,"));
  EXPECT_THAT(SplitRules("q],k,"), testing::ElementsAre("q]", "k", ""));
  EXPECT_TRUE(SplitRules("").empty());
}

}  // namespace
}  // namespace tare::plan_match_test
