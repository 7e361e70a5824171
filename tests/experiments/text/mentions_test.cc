// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/mentions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare::mentions_test {
namespace {

using ::testing::ElementsAre;

TEST(TextWords, AreRunsOfLettersAndDigits) {
  EXPECT_THAT(TextWords("It is 1234. Harriet's caf\xc3\xa9!").all(),
              ElementsAre("it", "is", "1234", "harriet", "s", "caf\xc3\xa9"));
  EXPECT_TRUE(TextWords(" -- ").all().empty());
  EXPECT_TRUE(TextWords("a b").Has("b"));
  EXPECT_FALSE(TextWords("a b").Has("c"));
}

TEST(TextWords, FindsPhrases) {
  const TextWords text("a b a b a c");
  const Mentions phrase = text.Find(TextWords("A, b")), overlapping = text.Find(TextWords("a b a")),
                 none = text.Find(TextWords("b c")), empty = text.Find(TextWords("!")), whole = text.Find(text);
  EXPECT_EQ(phrase.count, 2u);
  EXPECT_EQ(phrase.first, 0u);
  EXPECT_EQ(phrase.last, 2u);
  EXPECT_EQ(overlapping.count, 2u);
  EXPECT_EQ(none.count, 0u) << "no words in a row";
  EXPECT_EQ(empty.count, 0u);
  EXPECT_EQ(whole.count, 1u);
}

}  // namespace
}  // namespace tare::mentions_test
