// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/grammar.h"

#include <gtest/gtest.h>

namespace tare::grammar_test {
namespace {

TEST(GrammarTest, OneIsSingular) {
  EXPECT_EQ(Counted(1, "window"), "1 window");
  EXPECT_EQ(Counted(0, "window"), "0 windows");
  EXPECT_EQ(Counted(20, "window"), "20 windows");
}

TEST(GrammarTest, YBecomesIesAfterAConsonant) {
  EXPECT_EQ(Counted(2, "query"), "2 queries");
  EXPECT_EQ(Counted(2, "key"), "2 keys");
  EXPECT_EQ(Counted(1, "query"), "1 query");
}

TEST(GrammarTest, AVowelTakesAn) {
  EXPECT_EQ(WithArticle("olmo2"), "an olmo2");
  EXPECT_EQ(WithArticle("llama"), "a llama");
}

TEST(GrammarTest, NeighboursAreARange) {
  EXPECT_EQ(RangesText({4, 5, 7}), "4-5,7");
  EXPECT_EQ(RangesText({0, 2, 3, 4}), "0,2-4");
  EXPECT_EQ(RangesText({9}), "9");
  EXPECT_EQ(RangesText({}), "");
}

}  // namespace
}  // namespace tare::grammar_test
