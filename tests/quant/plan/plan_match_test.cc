// SPDX-License-Identifier: Apache-2.0
// Indices and texts alone; plan_test.cc tests matching in whole plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/plan/plan.h"

namespace tare {
namespace {

TEST(Selects, AllOrThoseInARange) {
  EXPECT_TRUE(Selects({}, 7));
  EXPECT_TRUE(Selects({}, std::nullopt));
  const IndexRanges ranges{{0, 0}, {3, 5}};
  for (const int inside : {0, 3, 4, 5}) EXPECT_TRUE(Selects(ranges, inside)) << inside;
  for (const int outside : {1, 2, 6}) EXPECT_FALSE(Selects(ranges, outside)) << outside;
  EXPECT_FALSE(Selects(ranges, std::nullopt));
}

TEST(SplitRules, AtCommasOutsideBrackets) {
  EXPECT_THAT(SplitRules("q,attn_logits[l0,m1],k"), testing::ElementsAre("q", "attn_logits[l0,m1]", "k"));
  EXPECT_THAT(SplitRules("q[l0,"), testing::ElementsAre("q[l0,"));
  EXPECT_THAT(SplitRules("q],k,"), testing::ElementsAre("q]", "k", ""));
  EXPECT_TRUE(SplitRules("").empty());
}

}  // namespace
}  // namespace tare
