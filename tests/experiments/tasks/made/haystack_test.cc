// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/haystack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/experiments/tasks/made/prose.h"
#include "tests/support/call.h"

namespace tare::haystack_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Haystack, BlanksSeparateWords) {
  EXPECT_THAT(Haystack::WordsOf(" a  b\n c,\td ", "t"), ElementsAre("a", "b", "c,", "d"));
  EXPECT_THAT(Call([] { Haystack::WordsOf(" \n", "t.txt"); }), ThrowsMessage<Error>(HasSubstr("t.txt: got no words")));
  EXPECT_THAT(Call([] { Haystack::WordsOf("a\xff", "t.txt"); }),
              ThrowsMessage<Error>(HasSubstr("t.txt: got byte 0xff")));
}

TEST(Haystack, DrawsWordsThatFillTheTokens) {
  Draws draws(1);
  for (const size_t tokens : {1u, 7u, 50u, 400u}) {
    const Haystack::Words words = Prose().Draw(tokens, draws);
    EXPECT_LE(TokensWithin(Joined(words), ProseTokenizer()), tokens);
    // It stands in the text, and the word after it has no room.
    const auto first = static_cast<size_t>(words.data() - Prose().words().data());
    const Haystack::Words more = Prose().words().subspan(first, words.size() + 1);
    EXPECT_GT(TokensWithin(Joined(more), ProseTokenizer()), tokens);
  }
  EXPECT_THAT(Call([&] { Prose().Draw(1'000'000, draws); }),
              ThrowsMessage<Error>(HasSubstr("expected at least 1000000; try a longer text")));
}

TEST(Filled, LeavesNoRoomForAnotherWord) {
  Draws draws(2);
  const auto make = [](Haystack::Words words) { return Joined(words) + " and so"; };
  const std::vector<std::string> endings{"a", "very long indeed"};
  for (const int64_t positions : {40, 128, 500}) {
    const std::string context = Filled(Prose(), positions, endings, ProseTokenizer(), draws, "test", make);
    const size_t taken = ProseTokenizer().Encode(context + " very long indeed").size() + 1;  // and <s>
    EXPECT_EQ(taken, PositionsOf(context, endings, ProseTokenizer()));
    EXPECT_LE(taken, static_cast<size_t>(positions));
    EXPECT_GT(taken, static_cast<size_t>(positions - 12));
  }
  EXPECT_THAT(Call([&] { Filled(Prose(), 12, endings, ProseTokenizer(), draws, "test", make); }),
              ThrowsMessage<Error>(HasSubstr("test: got a length of 12, expected at least")));
}

}  // namespace
}  // namespace tare::haystack_test
