// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/makers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "experiments/tasks/items/lines.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "quant/file/sha256.h"
#include "tests/experiments/tasks/made/prose.h"
#include "tests/support/call.h"

namespace tare::made_needles_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<Json> Make(const NeedleQuestion& question) { return MakeNeedles(question, Prose(), ProseTokenizer()); }

std::string AnswerOf(const Json& item) { return item["endings"][item["label"].get<size_t>()]; }

// "... Paris? It is" at the end: the number that the context gives Paris.
std::string NumberInContext(const std::string& context) {
  const size_t question = context.rfind("magic number of ");
  const std::string name = context.substr(question + 16, context.rfind('?') - question - 16);
  const std::string needle = "The magic number of " + name + " is ";
  const size_t at = context.find(needle);
  return at == context.npos ? "" : context.substr(at + needle.size(), 4);
}

TEST(MakeNeedles, AnItemForEachLengthAndDepth) {
  const std::vector<Json> items = Make({.grid = {.lengths = {128, 256}, .samples = 2}, .needles = 4});
  ASSERT_EQ(items.size(), 20u);
  for (size_t i = 0; i < items.size(); ++i) {
    const Json& item = items[i];
    EXPECT_EQ(item["sample"], i / 10);
    EXPECT_EQ(item["length"], i / 5 % 2 == 0 ? 128 : 256);
    EXPECT_EQ(item["depth"].get<double>(), static_cast<double>(i % 5) / 4);
    const std::string context = item["ctx"];
    EXPECT_EQ(NumberInContext(context), AnswerOf(item));
    EXPECT_EQ(std::set<Json>(item["endings"].begin(), item["endings"].end()).size(), 4u);
    const size_t positions = PositionsOf(context, item["endings"], ProseTokenizer());
    EXPECT_LE(positions, item["length"]);
    EXPECT_GT(positions, item["length"].get<size_t>() - 12);
    ParseChoiceItem(JsonText(item), "made");  // is read as any other
  }
}

// Words of prose before the answer's needle, as a share of all: its depth, to half a word.
TEST(MakeNeedles, TheAnswerIsAtItsDepth) {
  for (const Json& item :
       Make({.grid = {.lengths = {400}, .samples = 1, .answers = AnswerForm::kTargets}, .needles = 1})) {
    const std::string context = item["prompt"];
    const size_t at = context.find("The magic number of "), end = context.find('.', at) + 1;
    const auto count = [](const std::string& text) {
      return static_cast<double>(text.find_first_not_of(" \n") == text.npos ? 0 : Haystack::WordsOf(text, "t").size());
    };
    const double before = count(context.substr(0, at)),
                 after = count(context.substr(end, context.find("\n What is the magic") - end));
    EXPECT_NEAR(before, item["depth"].get<double>() * (before + after), 0.51) << context;
  }
}

TEST(MakeNeedles, EarlierQuestionsAreAnswered) {
  const std::vector<Json> items =
      Make({.grid = {.lengths = {300}, .depths = {0.5}, .samples = 3}, .needles = 6, .questions = 3});
  ASSERT_EQ(items.size(), 9u) << "each question counts";
  for (size_t i = 0; i < items.size(); ++i) {
    const Json& item = items[i];
    EXPECT_EQ(item["endings"].size(), 4u) << "of the six needles, less the two that are answered before the last";
    EXPECT_EQ(item["questions"], 3);
    EXPECT_EQ(item["sample"], i / 3);
    const size_t query = i % 3 + 1;
    EXPECT_EQ(item["query"], query);
    std::string context = item["ctx"];
    if (query > 1) {
      EXPECT_TRUE(context.starts_with(items[i - 1]["ctx"].get<std::string>() + " ")) << "the same haystack";
    }
    EXPECT_EQ(NumberInContext(context), AnswerOf(item));
    for (size_t question = query - 1; question > 0; --question) {
      context.resize(context.rfind("\n What"));
      const std::string answer = context.substr(context.size() - 4);
      EXPECT_EQ(NumberInContext(context), answer);
      EXPECT_FALSE(std::ranges::contains(item["endings"].get<std::vector<std::string>>(), answer))
          << "its place is given away";
    }
    EXPECT_EQ(context.find("\n What"), context.rfind("\n What"));
  }
}

// With five depths and three questions, each depth has three items of every sample, each with its answer at its depth.
TEST(MakeNeedles, QueriedNeedlesTakeTheDepthsInTurn) {
  std::map<double, int> count;
  for (const Json& item : Make({.grid = {.lengths = {512}, .samples = 2}, .needles = 4, .questions = 3})) {
    ++count[item["depth"].get<double>()];
    const std::string context = item["ctx"], prose = context.substr(0, context.find("\n What"));
    const double at = static_cast<double>(prose.find(AnswerOf(item))) / static_cast<double>(prose.size());
    EXPECT_NEAR(at, item["depth"].get<double>(), 0.15);
  }
  EXPECT_EQ(count, (std::map<double, int>{{0, 6}, {0.25, 6}, {0.5, 6}, {0.75, 6}, {1, 6}}));
}

std::vector<size_t> Differences(const std::string& a, const std::string& b) {
  std::vector<size_t> places;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) places.push_back(i);
  }
  return places;
}

// Any two of the endings differ in the same digit: none is in the middle of the others.
TEST(MakeNeedles, ChangedEndingsDifferInOneDigit) {
  for (const Json& item :
       Make({.grid = {.lengths = {300}, .samples = 4}, .wrong = WrongEndings::kChanged, .questions = 1})) {
    EXPECT_EQ(item["wrong"], "changed");
    EXPECT_EQ(NumberInContext(item["ctx"]), AnswerOf(item));
    std::set<std::vector<size_t>> places;
    for (size_t i = 1; i < 4; ++i) {
      for (size_t j = 0; j < i; ++j) places.insert(Differences(item["endings"][i], item["endings"][j]));
    }
    ASSERT_EQ(places.size(), 1u) << item;
    EXPECT_EQ(places.begin()->size(), 1u) << item;
  }
}

// To each ending two others have two digits swapped, and one has both pairs swapped.
TEST(MakeNeedles, SwappedEndingsHaveTheDigitsOfTheAnswer) {
  for (const Json& item : Make(
           {.grid = {.lengths = {400}, .samples = 4}, .wrong = WrongEndings::kSwapped, .needles = 8, .questions = 2})) {
    EXPECT_EQ(item["wrong"], "swapped");
    EXPECT_EQ(NumberInContext(item["ctx"]), AnswerOf(item));
    for (const std::string one : item["endings"]) {
      std::multiset<size_t> differ;
      for (const std::string other : item["endings"]) {
        differ.insert(Differences(one, other).size());
        EXPECT_TRUE(std::ranges::is_permutation(one, other));
        EXPECT_THAT(item["ctx"].get<std::string>(), HasSubstr(" is " + other + "."));
      }
      EXPECT_EQ(differ, (std::multiset<size_t>{0, 2, 2, 4})) << item;
    }
  }
}

// "1234, 5678 and 9012" are the numbers of the names, as the text has them.
TEST(MakeNeedles, AnswersListAllNumbersOfAllNames) {
  for (const Json& item :
       Make({.grid = {.lengths = {500}, .depths = {0, 1}, .samples = 3}, .needles = 6, .values = 2, .names = 2})) {
    ASSERT_EQ(item["endings"].size(), 3u) << "groups of two names";
    const std::string context = item["ctx"];
    const size_t question = context.rfind("\n What are the magic numbers of "), names = question + 32;
    ASSERT_NE(question, context.npos);
    ASSERT_TRUE(context.ends_with("? They are"));
    const std::string asked = context.substr(names, context.rfind('?') - names);
    const size_t between = asked.find(" and ");
    std::vector<std::string> numbers;
    for (const std::string& name : {asked.substr(0, between), asked.substr(between + 5)}) {
      const std::string needle = "number of " + name + " is ";
      for (size_t at = context.find(needle); at < question; at = context.find(needle, at + 1))
        numbers.push_back(context.substr(at + needle.size(), 4));
    }
    ASSERT_EQ(numbers.size(), 4u);
    EXPECT_EQ(AnswerOf(item), numbers[0] + ", " + numbers[1] + ", " + numbers[2] + " and " + numbers[3]);
  }
}

// Targets have the haystacks of the choices, with the answer to be written.
TEST(MakeNeedles, TargetsAreOfTheSameContexts) {
  NeedleQuestion question{.grid = {.lengths = {200}, .depths = {0.5}, .samples = 2}, .questions = 2};
  const std::vector<Json> choices = Make(question);
  question.grid.answers = AnswerForm::kTargets;
  const std::vector<Json> targets = Make(question);
  ASSERT_EQ(targets.size(), choices.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    EXPECT_EQ(targets[i]["targets"], Json::array({AnswerOf(choices[i])}));
    EXPECT_EQ(targets[i]["stop"], (Json{"\n", "."}));
    EXPECT_EQ(targets[i]["query"], choices[i]["query"]);
    EXPECT_EQ(NumberInContext(targets[i]["prompt"]), AnswerOf(choices[i]));
  }
  question.needles = question.questions = 1;
  EXPECT_EQ(Make(question).size(), 2u) << "with nothing to choose from one needle is enough";
}

// Other items would be another task of the same name.
TEST(MakeNeedles, EqualSeedsMakeEqualItems) {
  const auto text = [](uint64_t seed, size_t samples) {
    std::string lines;
    for (const Json& item : Make({.grid = {.lengths = {128}, .samples = samples, .seed = seed}}))
      lines += JsonText(item) + "\n";
    return lines;
  };
  EXPECT_TRUE(text(1, 2).starts_with(text(1, 1))) << "fewer samples are the beginning";
  EXPECT_NE(text(1, 1), text(2, 1));
  const std::string first = text(1, 1);
  EXPECT_EQ(Sha256Hex(std::as_bytes(std::span(first))),
            "4fa4a90ce75bb84c66514a851648348d17f49fdd270db3679909e82d84e23c77");
}

TEST(MakeNeedles, ImpossibleItemsAreRefused) {
  const auto refused = [](const NeedleQuestion& question, const char* why) {
    EXPECT_THAT(Call([&] { Make(question); }), ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused({.grid = {.lengths = {40}}}, "got a length of 40, expected at least");
  refused({.grid = {.lengths = {1 << 20}}}, "prose.txt: got about");
  refused({.grid = {.depths = {1.5}}}, "depths: got 1.5, expected 0 to 1");
  refused({.needles = 500}, "needles: got 500, expected at most");
  refused({.needles = 2, .questions = 3}, "questions: got 3, expected at most 1 of 2 needles, 1 asked for at once");
  refused({.needles = 1}, "questions: got 1, expected at most 0 of 1 needles");
  refused({.wrong = WrongEndings::kSwapped, .questions = 2}, "needles: got 4, expected at least 8, whose numbers are");
  refused({.wrong = WrongEndings::kChanged, .values = 2}, "wrong endings: got changed of several numbers");
  refused({.needles = 100, .values = 46}, "values: got 46 of 100 needles, expected at most 4500 numbers in all");
}

TEST(NeedleTemplates, AreReadOrRefused) {
  const TemporaryFolder folder;
  const auto load = [&](const std::string& text) {
    PutFile(folder / "t.json", text);
    return LoadNeedleTemplates(folder / "t.json");
  };
  NeedleQuestion question{
      .templates = load(R"({"needle": "{name}={number};", "question": " {name}=", "names": ["x"]})"),
      .grid = {.lengths = {64}, .depths = {0}, .samples = 1, .answers = AnswerForm::kTargets},
      .needles = 1};
  const Json item = Make(question)[0];
  const std::string prompt = item["prompt"], answer = item["targets"][0];
  EXPECT_TRUE(prompt.starts_with("x=" + answer + "; ")) << item;
  EXPECT_TRUE(prompt.ends_with(" x=")) << item;
  EXPECT_EQ(load("{}").needle, NeedleTemplates().needle);
  const auto refused = [&](const char* text, const char* why) {
    EXPECT_THAT(Call([&] { load(text); }), ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused("[]", "t.json: got array");
  refused("{\"needle\": 1}", "\"needle\": got 1");
  refused("{\"needle\": \"{name}\"}", "expected {number} in it");
  refused("{\"question\": \"who\"}", "expected {name} in it");
  refused("{\"names\": [\"a\", \"\"]}", "\"names\"");
  refused("{\"ned\": 1}", "got \"ned\"");
}

}  // namespace
}  // namespace tare::made_needles_test
