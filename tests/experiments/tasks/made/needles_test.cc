// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/needles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "experiments/tasks/items/choice_items.h"
#include "quant/base/error.h"
#include "quant/file/json_value.h"
#include "quant/file/sha256.h"
#include "tests/experiments/tasks/made/prose.h"

namespace tare {
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
  const std::vector<Json> items = Make({.lengths = {128, 256}, .needles = 3, .samples = 2});
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
  for (const Json& item : Make({.lengths = {400}, .needles = 1, .samples = 1})) {
    const std::string context = item["ctx"];
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
  const std::vector<Json> items = Make({.lengths = {300}, .depths = {0.5}, .needles = 6, .questions = 3, .samples = 3});
  ASSERT_EQ(items.size(), 9u) << "each question counts";
  for (size_t i = 0; i < items.size(); ++i) {
    const Json& item = items[i];
    EXPECT_EQ(item["endings"].size(), 6u) << "all of the needles' numbers";
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
    }
    EXPECT_EQ(context.find("\n What"), context.rfind("\n What"));
  }
}

// Of five depths and three questions each depth has three items of every sample, each where it says.
TEST(MakeNeedles, QueriedNeedlesTakeTheDepthsInTurn) {
  std::map<double, int> count;
  for (const Json& item :
       Make({.lengths = {512}, .wrong = WrongEndings::kChanged, .needles = 4, .questions = 3, .samples = 2})) {
    ++count[item["depth"].get<double>()];
    const std::string context = item["ctx"], prose = context.substr(0, context.find("\n What"));
    const double at = static_cast<double>(prose.find(AnswerOf(item))) / static_cast<double>(prose.size());
    EXPECT_NEAR(at, item["depth"].get<double>(), 0.15);
  }
  EXPECT_EQ(count, (std::map<double, int>{{0, 6}, {0.25, 6}, {0.5, 6}, {0.75, 6}, {1, 6}}));
}

TEST(MakeNeedles, WrongEndingsCanBeTheAnswerChanged) {
  for (const auto& [wrong, name, differ] :
       {std::tuple{WrongEndings::kChanged, "changed", 1}, {WrongEndings::kSwapped, "swapped", 2}}) {
    for (const Json& item : Make({.lengths = {128}, .wrong = wrong, .needles = 1, .samples = 4})) {
      EXPECT_EQ(item["wrong"], name);
      std::string answer = AnswerOf(item);
      EXPECT_EQ(NumberInContext(item["ctx"]), answer);
      for (const std::string ending : item["endings"]) {
        int different = 0;
        for (size_t i = 0; i < 4; ++i) different += ending[i] != answer[i];
        EXPECT_EQ(different, ending == answer ? 0 : differ) << ending << " of " << answer;
      }
    }
  }
}

// A change of it would be another task of the same name.
TEST(MakeNeedles, EqualSeedsMakeEqualItems) {
  const auto text = [](uint64_t seed, size_t samples) {
    std::string lines;
    for (const Json& item : Make({.lengths = {128}, .samples = samples, .seed = seed})) lines += JsonText(item) + "\n";
    return lines;
  };
  EXPECT_TRUE(text(1, 2).starts_with(text(1, 1))) << "fewer samples are the beginning";
  EXPECT_NE(text(1, 1), text(2, 1));
  const std::string first = text(1, 1);
  EXPECT_EQ(Sha256Hex(std::as_bytes(std::span(first))),
            "1d56b88f8d9c5f011f14052f2c8fd44627aa0ec80384a6382aa0c738ba6dc048");
}

TEST(MakeNeedles, ImpossibleItemsAreRefused) {
  const auto refused = [](const NeedleQuestion& question, const char* why) {
    EXPECT_THAT([&] { Make(question); }, ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused({.lengths = {40}}, "got a length of 40, expected at least");
  refused({.lengths = {1 << 20}}, "prose.txt: got about");
  refused({.depths = {1.5}}, "depths: got 1.5, expected 0 to 1");
  refused({.needles = 500}, "needles: got 500, expected at most");
  refused({.needles = 2, .questions = 3}, "questions: got 3, expected at most 2");
  EXPECT_THAT([] { ParseWrongEndings("x"); }, ThrowsMessage<Error>(HasSubstr("got 'x', expected others, changed")));
}

TEST(NeedleTemplates, AreReadOrRefused) {
  const TemporaryFolder folder;
  const auto load = [&](const std::string& text) {
    PutFile(folder / "t.json", text);
    return LoadNeedleTemplates(folder / "t.json");
  };
  NeedleQuestion question{
      .templates = load(R"({"needle": "{name}={number};", "question": " {name}=", "names": ["x"]})"),
      .lengths = {64},
      .depths = {0},
      .needles = 1,
      .samples = 1};
  const Json item = Make(question)[0];
  EXPECT_TRUE(item["ctx"].get<std::string>().starts_with("x=" + AnswerOf(item) + "; ")) << item;
  EXPECT_TRUE(item["ctx"].get<std::string>().ends_with(" x=")) << item;
  EXPECT_EQ(load("{}").needle, NeedleTemplates().needle);
  const auto refused = [&](const char* text, const char* why) {
    EXPECT_THAT([&] { load(text); }, ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused("[]", "t.json: got array");
  refused("{\"needle\": 1}", "\"needle\": got 1");
  refused("{\"needle\": \"{name}\"}", "expected {number} in it");
  refused("{\"question\": \"who\"}", "expected {name} in it");
  refused("{\"names\": [\"a\", \"\"]}", "\"names\"");
  refused("{\"ned\": 1}", "got \"ned\"");
}

}  // namespace
}  // namespace tare
