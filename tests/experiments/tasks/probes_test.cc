// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/probes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/probes.h"

namespace tare::probes_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

ProbeReport ReportOf(const std::vector<Json>& items) {
  Probes probes;
  for (const Json& item : items) probes.Add(ParseChoiceItem(JsonText(item), "t"));
  return probes.Report();
}

double ScoreOf(const Json& item, const std::string& guess) { return Of(ReportOf({item}), guess).score; }

// One item each, worked out by hand.
TEST(Probes, GuessesOfAnItem) {
  const Json item{{"ctx", "Rome, then Oslo. Rome and old Bern; Oslo rome"},
                  {"endings", {"Oslo", "rome", "Bern", "Old Ur"}},
                  {"label", 0}};
  const auto with = [&](int label) {
    Json other = item;
    other["label"] = label;
    return other;
  };
  // Oslo, rome and Bern stand there whole, of "Old Ur" one word of two.
  EXPECT_DOUBLE_EQ(ScoreOf(item, "bag of words"), 1. / 3);
  EXPECT_DOUBLE_EQ(ScoreOf(with(3), "bag of words"), 0);
  EXPECT_EQ(ScoreOf(with(1), "first mention"), 1) << "words 0, 2, 5 and never";
  EXPECT_EQ(ScoreOf(item, "first mention"), 0);
  EXPECT_EQ(ScoreOf(with(1), "last mention"), 1) << "words 8, 9, 6 and never";
  EXPECT_EQ(ScoreOf(with(1), "most frequent"), 1) << "3, 2, 1 and 0 times";
  EXPECT_EQ(ScoreOf(with(2), "most frequent"), 0);
  EXPECT_EQ(ScoreOf(with(3), "longest"), 1);
  EXPECT_DOUBLE_EQ(*ReportOf({item}).chance, 0.25);
}

// 1300 differs from each other in one digit, and those from each other in two.
TEST(Probes, TheClosestAnswerIsTheOneWhoseChangesAreTheOthers) {
  const Json item{{"ctx", "x"}, {"endings", {"1200", "1300", "1390", "2300"}}, {"label", 1}};
  EXPECT_EQ(ScoreOf(item, "closest"), 1);
}

TEST(Probes, MentionsAreOfAllWordsInARow) {
  const Json item{{"ctx", "the old man and the sea; the man old"},
                  {"endings", {"old man", "man old", "the old sea"}},
                  {"label", 0}};
  EXPECT_EQ(ScoreOf(item, "first mention"), 1);
  EXPECT_DOUBLE_EQ(ScoreOf(item, "most frequent"), 0.5) << "each once";
  EXPECT_DOUBLE_EQ(ScoreOf(item, "bag of words"), 1. / 3) << "all words of all stand there";
}

// Ten items of four endings, the answer seven times in place 2 and eight times "b".
TEST(Probes, ConstantsAreTheBestPlaceAndTheBestEnding) {
  std::vector<Json> items;
  const auto add = [&](int n, const std::vector<std::string>& endings, int label) {
    for (int i = 0; i < n; ++i) items.push_back({{"ctx", "x"}, {"endings", endings}, {"label", label}});
  };
  add(5, {"a", "b", "c", "d"}, 1);
  add(3, {"b", "c", "d", "e"}, 0);
  add(2, {"c", "d", "e", "f"}, 1);
  const ProbeReport report = ReportOf(items);
  EXPECT_EQ(Of(report, "constant place").choice, "2");
  EXPECT_DOUBLE_EQ(Of(report, "constant place").score, 0.7);
  EXPECT_EQ(Of(report, "constant ending").choice, "b");
  EXPECT_DOUBLE_EQ(Of(report, "constant ending").score, 0.85) << "eight, and two of chance 1/4 where it is not offered";
  // z of the place: 10 (0.7 - 0.25) over the root of the sum of squares 7 0.75^2 + 3 0.25^2
  EXPECT_NEAR(Of(report, "constant place").z, 4.5 / std::sqrt(7 * 0.5625 + 3 * 0.0625), 1e-12);
}

TEST(Probes, ItemsOfASampleAreOneUnit) {
  std::vector<Json> apart, together;
  for (int i = 0; i < 40; ++i) {
    Json item{{"ctx", "a"}, {"endings", {"a", "b"}}, {"label", i % 8 == 0 ? 1 : 0}};
    apart.push_back(item);
    item["sample"] = i / 20;
    together.push_back(item);
  }
  const ProbeReport one = ReportOf(apart), other = ReportOf(together);
  EXPECT_EQ(Of(one, "bag of words").score, Of(other, "bag of words").score);
  EXPECT_LT(*Of(one, "bag of words").p, 0.01);
  EXPECT_EQ(*Of(other, "bag of words").p, 1) << "two samples show nothing";
  EXPECT_GT(Of(other, "bag of words").z, 0);
  EXPECT_LE(Of(other, "bag of words").z, std::sqrt(2) + 1e-12);
}

// Where a guess finds all endings equal, it scores chance exactly, also in thirds.
TEST(Probes, AGuessThatKnowsNothingIsAtChance) {
  std::vector<Json> items;
  for (int i = 0; i < 1000; ++i) items.push_back({{"ctx", "x"}, {"endings", {"a", "b", "c"}}, {"label", i % 3}});
  const ProbeReport report = ReportOf(items);
  for (const Probe& probe : report.probes) EXPECT_EQ(*probe.p, 1) << probe.guess;
  EXPECT_THAT(ProbeText(report), HasSubstr("no guess differs from chance"));
  EXPECT_NEAR(Of(report, "bag of words").score, 1. / 3, 1e-12);
}

// The needles of the embedded pair that stand alone: the other endings are in no context.
TEST(Probes, WrongEndingsThatTheContextLacksAreSeen) {
  const ProbeReport report = ProbeItems(PairFolder("needles-1.jsonl"));
  EXPECT_EQ(report.items, 1200u);
  EXPECT_EQ(Of(report, "bag of words").score, 1);
  EXPECT_LT(*Of(report, "bag of words").p, 1e-6);
  EXPECT_THAT(ProbeText(report), HasSubstr("not at chance: bag of words, first mention, last mention, most frequent"));
  const ProbeReport four = ProbeItems(PairFolder("needles-4.jsonl"));
  EXPECT_DOUBLE_EQ(Of(four, "bag of words").score, 0.25);
  EXPECT_DOUBLE_EQ(Of(four, "most frequent").score, 0.25);
}

TEST(Probes, JsonHasScoresAndIntervals) {
  const Json json = ProbeJson(ReportOf({{{"ctx", "a"}, {"endings", {"a", "b"}}, {"label", 0}}}));
  EXPECT_EQ(json["schema"], "tare.probes/1");
  EXPECT_EQ(json["items"], 1);
  EXPECT_EQ(json["chance"], 0.5);
  ASSERT_EQ(json["probes"].size(), 8u);
  EXPECT_EQ(json["probes"][2]["guess"], "bag of words");
  EXPECT_EQ(json["probes"][2]["score"], 1.0);
  EXPECT_NEAR(json["probes"][2]["low"].get<double>(), 0.2065, 1e-3) << "Wilson's, of one of one";
  EXPECT_EQ(json["probes"][2]["choice"], Json());
}

TEST(Probes, BadFilesAreRefused) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text, const char* why) {
    PutFile(folder / "t.jsonl", text);
    EXPECT_THAT(Call([&] { ProbeItems(folder / "t.jsonl"); }), ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused("\n", "t.jsonl");
  refused("[]", "t.jsonl: line 1");
  refused("{\"ctx\": \"a\", \"endings\": [\"a\"], \"label\": 3}", "line 1");
}

TEST(Probes, ItemsThatTakeMinutesAreRefused) {
  std::string words;
  for (int i = 0; i < 100'000; ++i) words += "a ";
  const Json item{{"ctx", words}, {"endings", {words + "b", "c"}}, {"label", 0}};
  EXPECT_THAT(Call([&] { ReportOf({item}); }), ThrowsMessage<Error>(HasSubstr("probe: item 1: got 4.0e+10 bytes")));
  std::vector<std::string> endings;  // each compared with each other, they would take minutes
  for (int i = 0; i < 200'000; ++i) endings.push_back(std::to_string(i % 10));
  EXPECT_EQ(ScoreOf({{"ctx", "x"}, {"endings", endings}, {"label", 3}}, "longest"), 1.0 / 200'000);
}

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
}  // namespace tare::probes_test
