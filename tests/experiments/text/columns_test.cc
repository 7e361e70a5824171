// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/columns.h"

#include <gtest/gtest.h>

namespace tare {
namespace {

TEST(Columns, AreAsWideAsTheirWidestCell) {
  EXPECT_EQ(InColumns({{"site", "n", "median"}, {"attn_logits", "12", ""}, {"q", "345", "0.5"}}, 1),
            "site           n  median\n"
            "attn_logits   12\n"
            "q            345     0.5\n");
  EXPECT_EQ(InColumns({{"a", "bb"}, {"aa", "b"}}, 2), "a   bb\naa  b\n");
  EXPECT_EQ(InColumns({}, 1), "");
}

// 39 and 39 with two blanks are 80; one letter more, and they stand one apart.
TEST(Columns, StandCloserWhereTheyWouldBeTooWide) {
  const std::string wide(39, 'x');
  EXPECT_EQ(InColumns({{wide, wide}}, 1), wide + "  " + wide + "\n");
  EXPECT_EQ(InColumns({{wide, wide + "x"}}, 1), wide + " " + wide + "x\n");
}

}  // namespace
}  // namespace tare
