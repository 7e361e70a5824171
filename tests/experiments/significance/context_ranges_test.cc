// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/context_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare {
namespace {

using ::testing::ElementsAre;

TEST(ContextRanges, ByPowersOfTwo) {
  const int64_t contexts[] = {5, 1, 4, 3, 8, 7};
  const std::vector<ContextRange> all = RangesOf(contexts);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[2].first, 4);
  EXPECT_EQ(all[2].last, 7);
  EXPECT_THAT(all[2].tokens, ElementsAre(0, 2, 5));
  EXPECT_THAT(all[0].tokens, ElementsAre(1));
  EXPECT_EQ(all[3].last, 15);
}

TEST(ContextRanges, NothingBeforeAndNothingAtAll) {
  const int64_t none[] = {0, 1};
  EXPECT_EQ(RangesOf(none)[0].last, 0);
  EXPECT_TRUE(RangesOf({}).empty());
}

}  // namespace
}  // namespace tare
