// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/counted_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>

#include "experiments/tasks/items/choice_items.h"
#include "quant/base/error.h"
#include "quant/file/sha256.h"
#include "tests/experiments/tasks/made/prose.h"
#include "tests/support/call.h"

namespace tare::counted_words_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<Json> Common(const CommonWordQuestion& question) {
  return MakeCommonWords(question, CommonWords(Prose().words()), ProseTokenizer());
}

// Of the list, without its numbers.
std::vector<std::string> WordsIn(const std::string& context) {
  const std::string list = context.substr(0, context.find('\n'));
  std::vector<std::string> words;
  for (const std::string_view word : Haystack::WordsOf(list, "t")) {
    if (!word.ends_with(".")) words.emplace_back(word);
  }
  return words;
}

std::map<std::string, size_t> CountsIn(const std::string& context) {
  std::map<std::string, size_t> counts;
  for (const std::string& word : WordsIn(context)) ++counts[word];
  return counts;
}

TEST(MakeCommonWords, TheAnswerIsCommonAndTheOthersAreNot) {
  const std::vector<Json> items = Common({.lengths = {300, 600}, .common = 2, .often = 8, .samples = 5});
  ASSERT_EQ(items.size(), 10u);
  for (const Json& item : items) {
    std::map<std::string, size_t> counts = CountsIn(item["ctx"]);
    for (size_t e = 0; e < 4; ++e)
      EXPECT_EQ(counts[item["endings"][e].get<std::string>()], e == item["label"].get<size_t>() ? 8u : 3u) << item;
    EXPECT_EQ(std::ranges::count(counts, 8u, [](const auto& word) { return word.second; }), 2);
    const size_t positions = PositionsOf(item["ctx"], item["endings"], ProseTokenizer());
    EXPECT_LE(positions, item["length"].get<size_t>());
    EXPECT_GT(positions, item["length"].get<size_t>() - 60) << "three numbers and words more would fit";
    ParseChoiceItem(JsonText(item), "made");
  }
}

// At the beginning and at the end of the list, the four words that are offered.
TEST(MakeCommonWords, OfferedWordsStandAtBothEnds) {
  for (const Json& item : Common({.lengths = {300}, .samples = 3})) {
    const std::vector<std::string> words = WordsIn(item["ctx"]);
    const std::vector<std::string> endings = item["endings"];
    EXPECT_TRUE(std::ranges::is_permutation(std::span(words).first(4), endings));
    EXPECT_TRUE(std::ranges::is_permutation(std::span(words).last(4), endings));
  }
}

TEST(MakeCommonWords, TargetsListAllCommonWords) {
  const Json item = Common({.lengths = {400}, .common = 3, .samples = 1, .answers = AnswerForm::kTargets})[0];
  std::vector<std::string> common;
  for (const auto& [word, count] : CountsIn(item["prompt"])) {
    if (count == 10) common.push_back(word);
  }
  EXPECT_EQ(item["targets"], Json(common));
  EXPECT_THAT(item["prompt"].get<std::string>(), HasSubstr("\n The 3 most common words of this list are"));
}

TEST(MakeFrequentWords, TheAnswerIsTheFirstOfFourRanks) {
  const std::vector<Json> items = MakeFrequentWords({.lengths = {128, 700}, .samples = 4}, ProseTokenizer());
  ASSERT_EQ(items.size(), 8u);
  for (const Json& item : items) {
    std::map<std::string, size_t> counts = CountsIn(item["ctx"]);
    std::vector<size_t> sorted;
    for (const auto& [word, count] : counts) sorted.push_back(count);
    std::ranges::sort(sorted, std::greater());
    EXPECT_GT(sorted[0], sorted[1]);
    EXPECT_GT(sorted[2], sorted[3]) << "three words are the most frequent";
    std::vector<size_t> offered;
    for (const std::string ending : item["endings"]) offered.push_back(counts[ending]);
    EXPECT_EQ(offered[item["label"].get<size_t>()], sorted[0]);
    std::ranges::sort(offered, std::greater());
    EXPECT_TRUE(std::ranges::equal(offered, std::span(sorted).first(4)));
    EXPECT_LE(PositionsOf(item["ctx"], item["endings"], ProseTokenizer()), item["length"]);
  }
}

// Of rank r, r^-2 as often as the first, where that is not few.
TEST(MakeFrequentWords, CountsFallWithTheSquareOfTheRank) {
  const Json item =
      MakeFrequentWords({.lengths = {2000}, .samples = 1, .answers = AnswerForm::kTargets}, ProseTokenizer())[0];
  std::vector<std::pair<size_t, std::string>> sorted;
  for (const auto& [word, count] : CountsIn(item["prompt"])) sorted.emplace_back(count, word);
  std::ranges::sort(sorted, std::greater());
  const auto first = static_cast<double>(sorted[0].first);
  ASSERT_GT(first, 100);
  for (const size_t rank : {2u, 3u, 4u, 5u})
    EXPECT_NEAR(static_cast<double>(sorted[rank - 1].first), first / (rank * rank), 0.5 + 1e-9) << rank;
  EXPECT_EQ(item["targets"], (Json{sorted[0].second, sorted[1].second, sorted[2].second}));
}

TEST(MakeCountedWords, EqualSeedsMakeEqualItems) {
  std::string lines;
  for (const Json& item : Common({.lengths = {300}, .samples = 2})) lines += JsonText(item) + "\n";
  for (const Json& item : MakeFrequentWords({.lengths = {200}, .samples = 2}, ProseTokenizer()))
    lines += JsonText(item) + "\n";
  EXPECT_EQ(Sha256Hex(std::as_bytes(std::span(lines))),
            "75688a84cd5599238e6dc8a85598828275698370b3ed942675723a31e4b2f6b4");
}

TEST(MakeCountedWords, ImpossibleItemsAreRefused) {
  const auto refused = [](const CommonWordQuestion& question, const char* why) {
    EXPECT_THAT(Call([&] { Common(question); }), ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused({.often = 3}, "often: got 3 and 3 otherwise, expected more than otherwise");
  refused({.lengths = {100}}, "common words: got a length of 100, expected at least");
  EXPECT_THAT(Call([] { MakeCommonWords({}, {"word"}, ProseTokenizer()); }),
              ThrowsMessage<Error>(HasSubstr("got a text with 1 different words")));
  EXPECT_THAT(Call([] { MakeFrequentWords({.lengths = {20}}, ProseTokenizer()); }),
              ThrowsMessage<Error>(HasSubstr("frequent words: got a length of 20, expected at least")));
}

}  // namespace
}  // namespace tare::counted_words_test
