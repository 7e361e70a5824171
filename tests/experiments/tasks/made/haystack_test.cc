// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/makers.h"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
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
    EXPECT_LE(TokensWithin(Listed(words, " "), ProseTokenizer()), tokens);
    // It stands in the text, and the word after it has no room.
    const auto first = static_cast<size_t>(words.data() - Prose().words().data());
    const Haystack::Words more = Prose().words().subspan(first, words.size() + 1);
    EXPECT_GT(TokensWithin(Listed(more, " "), ProseTokenizer()), tokens);
  }
  EXPECT_THAT(Call([&] { Prose().Draw(1'000'000, draws); }),
              ThrowsMessage<Error>(HasSubstr("expected at least 1000000; try a longer text")));
}

TEST(Filled, LeavesNoRoomForAnotherWord) {
  Draws draws(2);
  const auto make = [](Haystack::Words words) { return Listed(words, " ") + " and so"; };
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

TEST(Dealer, DealsEachEquallyOften) {
  Draws draws(1);
  Dealer dealer(3);
  std::vector<size_t> dealt;
  std::set<std::vector<size_t>> rounds;
  for (size_t i = 0; i < 60; ++i) dealt.push_back(dealer.Next(draws));
  for (size_t i = 0; i < dealt.size(); i += 3) {
    std::vector<size_t> round(dealt.begin() + static_cast<ptrdiff_t>(i), dealt.begin() + static_cast<ptrdiff_t>(i + 3));
    rounds.insert(round);
    std::ranges::sort(round);
    EXPECT_EQ(round, (std::vector<size_t>{0, 1, 2}));
  }
  EXPECT_EQ(rounds.size(), 6u) << "in every order";
}

TEST(DepthDealer, EveryThingTakesEveryDepth) {
  Draws draws(1);
  DepthDealer dealer({0, 0.5, 1}, 4);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::multiset<double>> taken(4);
    for (size_t turn = 0; turn < 3; ++turn) {
      const std::vector<double> depths = dealer.At(turn, draws);
      ASSERT_EQ(depths.size(), 4u);
      EXPECT_EQ(depths[0], static_cast<double>(turn) / 2) << "the first takes them as listed";
      for (size_t thing = 0; thing < 4; ++thing) taken[thing].insert(depths[thing]);
    }
    for (const auto& depths : taken) EXPECT_EQ(depths, (std::multiset<double>{0, 0.5, 1}));
  }
}

TEST(ItemWriter, DealsThePlacesOfAnswers) {
  ItemWriter writer(AnswerForm::kChoices, 1);
  std::map<size_t, int> places;
  std::set<Json> orders;
  for (int i = 0; i < 41; ++i) {
    const Json item = writer.Write({.context = "c", .answer = "a", .wrong = {"x", "y", "z"}, .keys = {{"depth", 1}}});
    ++places[item["label"].get<size_t>()];
    orders.insert(item["endings"]);
    EXPECT_EQ(item["endings"][item["label"].get<size_t>()], "a");
    EXPECT_EQ(item["ctx"], "c");
    EXPECT_EQ(item["depth"], 1);
  }
  for (const auto& [place, count] : places) EXPECT_TRUE(count == 10 || count == 11) << place;
  EXPECT_GT(orders.size(), 12u) << "the others are in any order";
}

TEST(ItemWriter, WritesTargets) {
  ItemWriter writer(AnswerForm::kTargets, 1);
  EXPECT_EQ(writer.Write({.context = "c", .answer = "a", .keys = {{"depth", 1}}, .stop = {"."}}),
            Json::parse(R"({"prompt": "c", "targets": ["a"], "stop": ["."], "score": "exact", "depth": 1})"));
  EXPECT_EQ(writer.Write({.context = "c", .answer = "a and b", .keys = {{"depth", 1}}, .listed = {"a", "b"}})["score"],
            "all");
}

}  // namespace
}  // namespace tare::haystack_test
