// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/items/lines.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::lines_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<size_t> NumbersOf(const std::string& text, size_t limit, TakeFrom from = TakeFrom::kStart) {
  const TemporaryFolder folder;
  PutFile(folder / "f", text);
  std::vector<size_t> numbers;
  ForEachLine(folder / "f", limit, from, [&](const JsonLine& line) {
    EXPECT_TRUE(line.where.ends_with("f: line " + std::to_string(line.number))) << line.where;
    numbers.push_back(line.number);
  });
  return numbers;
}

TEST(Lines, BlankOnesAreSkippedAndNotCounted) {
  EXPECT_THAT(NumbersOf("a\r\n\n \t \nb", 0), ElementsAre(1, 4));
  EXPECT_THAT(NumbersOf("\na\nb\n\xff\n", 2), ElementsAre(2, 3)) << "what is beyond the limit is not read";
  EXPECT_THAT(Call([] { NumbersOf("a\n\xff", 0); }), ThrowsMessage<Error>(HasSubstr("line 2: got byte 0xff")));
  EXPECT_THAT([] { NumbersOf("a\n\xc0\xa0", 0, TakeFrom::kSpread); },  // a blank, spelled in two bytes
              ThrowsMessage<Error>(HasSubstr("line 2: got byte 0xc0")));
  EXPECT_THAT(Call([] { NumbersOf("\n \n", 0); }), ThrowsMessage<Error>(HasSubstr("got no items")));
}

// One of each hundred of a thousand, blank lines aside, and not of the same kind where the file repeats ten kinds.
TEST(Lines, SpreadOverTheFile) {
  std::string text = "\n";
  for (int i = 0; i < 1000; ++i) text += "a\n";
  const std::vector<size_t> numbers = NumbersOf(text, 10, TakeFrom::kSpread);
  ASSERT_EQ(numbers.size(), 10u);
  std::set<size_t> kinds;
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ((numbers[i] - 2) / 100, i);
    kinds.insert(numbers[i] % 10);
  }
  EXPECT_GT(kinds.size(), 3u);
  EXPECT_EQ(NumbersOf(text, 10, TakeFrom::kSpread), numbers);
  EXPECT_EQ(NumbersOf(text, 2000, TakeFrom::kSpread).size(), 1000u);
  EXPECT_EQ(NumbersOf(text, 0, TakeFrom::kSpread).size(), 1000u);
}

TEST(Lines, FieldsOfWrongTypesAreNamed) {
  const nlohmann::json json = ParseObject(R"({"s": "x", "n": 1, "l": ["a", "b"], "m": ["a", 2]})", "f:1", "fields");
  EXPECT_TRUE(HasFields(json, {"s", "n"}));
  EXPECT_FALSE(HasFields(json, {"s", "t"}));
  EXPECT_EQ(StringField(json, "s", "f:1"), "x");
  EXPECT_THAT(StringsField(json, "l", "f:1"), ElementsAre("a", "b"));
  EXPECT_EQ(IndexField(json, "n", 2, "f:1"), 1);
  EXPECT_THAT(Call([&] { StringField(json, "t", "f:1"); }), ThrowsMessage<Error>(HasSubstr("f:1: got no \"t\"")));
  EXPECT_THAT(Call([&] { StringField(json, "n", "f:1"); }), ThrowsMessage<Error>(HasSubstr("\"n\": got 1")));
  EXPECT_THAT(Call([&] { StringsField(json, "m", "f:1"); }), ThrowsMessage<Error>(HasSubstr("\"m\": got 2")));
  EXPECT_THAT(Call([&] { StringsField(json, "s", "f:1"); }), ThrowsMessage<Error>(HasSubstr("at least two")));
  EXPECT_THAT(Call([&] { IndexField(json, "n", 1, "f:1"); }), ThrowsMessage<Error>(HasSubstr("expected 0 to 0")));
  EXPECT_THAT(Call([] { ParseObject("[1]", "f:1", "x"); }),
              ThrowsMessage<Error>(HasSubstr("f:1: got array, expected")));
}

TEST(Lines, KeysArePlainFieldsThatTheItemIsNotMadeOf) {
  const nlohmann::json json =
      nlohmann::json::parse(R"({"s": "x", "n": 1, "b": true, "l": [1], "z": null, "ctx": "c"})");
  EXPECT_EQ(KeysOf(json, {"ctx"}), nlohmann::ordered_json::parse(R"({"b": true, "n": 1, "s": "x"})"));
}

// choice_items_test.cc reads lines that the harness logged; these are lines that it might log.
// A line with requests as lists, as older versions of the harness logged them.
nlohmann::json Line(const std::vector<std::vector<std::string>>& arguments, const nlohmann::json& target,
                    const std::vector<double>& likelihoods = {}, std::optional<double> acc = std::nullopt) {
  nlohmann::json line{{"doc_id", 3}, {"doc", {{"id", "x"}, {"n", 2}}}, {"target", target}, {"arguments", arguments}};
  for (const double likelihood : likelihoods) line["filtered_resps"].push_back({likelihood, false});
  if (acc) line["acc"] = *acc;
  return line;
}

ChoiceItem Item(const nlohmann::json& line) { return ParseChoiceItem(line.dump(), "f:1"); }
void Refuses(const nlohmann::json& line, const char* why) {
  EXPECT_THAT(Call([&] { Item(line); }), ThrowsMessage<Error>(HasSubstr(why))) << line;
}

TEST(HarnessLog, ContinuationsAreWrittenAsTheyWereScored) {
  const ChoiceItem spaced = Item(Line({{"c", " a"}, {"c", "  b"}}, "1"));
  EXPECT_EQ(spaced.between, " ");
  EXPECT_THAT(spaced.endings, ElementsAre("a", " b"));
  EXPECT_THAT(spaced.contexts, ElementsAre("c"));
  EXPECT_EQ(spaced.label, 1);
  EXPECT_EQ(spaced.keys, nlohmann::ordered_json::parse(R"({"doc_id": 3, "id": "x", "n": 2})"));
  const ChoiceItem bare = Item(Line({{"c", "a"}, {"c", " b"}}, 0));
  EXPECT_EQ(bare.between, "");
  EXPECT_THAT(bare.endings, ElementsAre("a", " b"));
}

TEST(HarnessLog, TheTargetIsAnIndexOrAnEnding) {
  EXPECT_EQ(Item(Line({{"c", " yes"}, {"c", " no"}}, "no")).label, 1);
  EXPECT_EQ(Item(Line({{"c", " B"}, {"c", " A"}}, " A")).label, 1);
  // Endings that are numbers: what was logged decides.
  Refuses(Line({{"c", " 1"}, {"c", " 0"}}, "1"), "\"target\": got \"1\", which may be several");
  EXPECT_EQ(Item(Line({{"c", " 1"}, {"c", " 0"}}, "1", {-1, -2}, 1.0)).label, 0);
  EXPECT_EQ(Item(Line({{"c", " 1"}, {"c", " 0"}}, "1", {-1, -2}, 0.0)).label, 1);
  Refuses(Line({{"c", " a"}, {"c", " b"}}, "0", {-1, -2}, 0.0), "is none, or not what \"acc\" says");
  Refuses(Line({{"c", " a"}, {"c", " b"}}, "2"), "which is none");
  Refuses(Line({{"c", " a"}, {"c", " b"}}, "[0, 1]"), "which is none");
}

TEST(HarnessLog, OfSeveralContextsTheAnswerTells) {
  const std::vector<std::vector<std::string>> requests{{"a", " end"}, {"b", " end"}};
  EXPECT_EQ(Item(Line(requests, "end", {-5, -2}, 1.0)).label, 1);
  EXPECT_EQ(Item(Line(requests, "end", {-5, -2}, 0.0)).label, 0);
  EXPECT_THAT(Item(Line(requests, "end", {-5, -2}, 0.0)).contexts, ElementsAre("a", "b"));
  Refuses(Line(requests, "end"), "may be several of them, expected one of the 2 endings");
  Refuses(Line({{"a", " end"}, {"b", " end"}, {"d", " end"}}, "end", {-5, -2, -3}, 0.0), "may be several");
}

TEST(HarnessLog, RequestsOfMutualInformationAreLeftOut) {
  const ChoiceItem item = Item(Line({{"c", " a"}, {"c", " b"}, {"", " a"}, {"", " b"}}, "0", {-1, -2, -3, -4}, 1.0));
  EXPECT_THAT(item.contexts, ElementsAre("c"));
  EXPECT_THAT(item.endings, ElementsAre("a", "b"));
}

TEST(HarnessLog, OtherTasksAreNamed) {
  Refuses(Line({{"c", " a"}}, ""), "expected several of a context and a continuation; try loglikelihood=FILE");
  Refuses(Line({{"text"}}, ""), "try documents=FILE");
  Refuses(Line({{"c", " a"}, {"text"}}, "0"), "got 1 in request 2");
  Refuses(Line({}, "0"), "got no request");
  nlohmann::json generates = Line({}, "0");
  generates["arguments"] = {{"gen_args_0", {{"arg_0", "c"}, {"arg_1", {{"until", {"\n"}}}}}}};
  Refuses(generates, "a task that generates answers is generate=FILE");
  generates["arguments"] = 5;
  Refuses(generates, "got no request");
}

}  // namespace
}  // namespace tare::lines_test
