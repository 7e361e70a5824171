// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/makers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <sstream>

#include "quant/base/message.h"
#include "quant/file/json.h"
#include "quant/file/sha256.h"
#include "tests/experiments/tasks/made/prose.h"
#include "tests/support/call.h"

namespace tare::shots_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::string> LinesOf(const Json& item) {
  std::vector<std::string> lines;
  std::istringstream stream(item["ctx"].get<std::string>());
  for (std::string line; std::getline(stream, line);) lines.push_back(line.starts_with(" ") ? line.substr(1) : line);
  return lines;
}

std::string AnswerOf(const Json& item) { return item["endings"][item["label"].get<size_t>()]; }

TEST(MakeShots, TheExamplesTellTheLabel) {
  const std::vector<Json> items =
      MakeShots({.shots = {4, 12}, .seeds = 2, .classes = 4, .samples = 5}, Prose().words());
  ASSERT_EQ(items.size(), 5u * 2 * 2 * 2);
  for (const Json& item : items) {
    std::vector<std::string> lines = LinesOf(item);
    ASSERT_EQ(lines.size(), item["shots"].get<size_t>() + 1);
    const std::string asked = lines.back();
    EXPECT_TRUE(asked.ends_with(" ->")) << asked;
    EXPECT_EQ(item["endings"].size(), 4u);
    // A word of the last line is in an example of the answer's label, and in none of another.
    std::map<std::string, std::set<std::string>> labels;
    for (size_t i = 0; i + 1 < lines.size(); ++i) {
      const auto words = Haystack::WordsOf(lines[i], "t");
      ASSERT_EQ(words.size(), 4u) << lines[i];
      for (const std::string_view word : {words[0], words[1]}) labels[std::string(word)].insert(std::string(words[3]));
    }
    const auto words = Haystack::WordsOf(asked, "t");
    const auto tells = [&](size_t i) { return labels[std::string(words[i])] == std::set{AnswerOf(item)}; };
    EXPECT_TRUE(tells(0) || tells(1)) << item["ctx"];
  }
}

// For a sample and a number of shots, only the order differs; alternating has each class once in every four lines.
TEST(MakeShots, OrdersAreOfTheSameExamples) {
  const std::vector<Json> items = MakeShots({.shots = {8}, .seeds = 3, .classes = 4, .samples = 1}, Prose().words());
  ASSERT_EQ(items.size(), 6u);
  std::set<std::vector<std::string>> orders, sorted;
  for (const Json& item : items) {
    std::vector<std::string> lines = LinesOf(item);
    orders.insert(lines);
    if (item["order"] == "alternating") {
      for (const size_t begin : {0u, 4u}) {
        std::set<char> labels;
        for (size_t i = begin; i < begin + 4; ++i) labels.insert(lines[i].back());
        EXPECT_EQ(labels.size(), 4u);
      }
    }
    std::ranges::sort(lines);
    sorted.insert(lines);
  }
  EXPECT_EQ(orders.size(), 6u);
  EXPECT_EQ(sorted.size(), 1u);
}

// Over items the places of the answers, over samples their classes and letters; each letter is offered equally often.
TEST(MakeShots, PlacesAndLettersAreBalanced) {
  std::map<size_t, int> places;
  std::map<std::string, int> right, offered;
  const std::vector<Json> items = MakeShots({.shots = {8}, .seeds = 1, .classes = 3, .samples = 25}, Prose().words());
  for (const Json& item : items) {
    ++places[item["label"].get<size_t>()];
    ++right[AnswerOf(item)];
    for (const std::string label : item["endings"]) ++offered[label];
  }
  EXPECT_EQ(places, (std::map<size_t, int>{{0, 17}, {1, 17}, {2, 16}})) << "of 50 items";
  ASSERT_EQ(right.size(), 8u);
  for (const auto& [letter, count] : right) {
    EXPECT_TRUE(count == 6 || count == 8) << letter << ": of 25 samples in two orders, " << count;
    EXPECT_TRUE(18 <= offered[letter] && offered[letter] <= 20) << letter << " is offered " << offered[letter];
  }
}

// Shots that are not a multiple of the classes have more of some: which, the answer does not tell.
TEST(MakeShots, ClassesAreBalanced) {
  std::map<int64_t, int> counts;  // lines with the answer's label
  for (const Json& item : MakeShots({.shots = {6}, .seeds = 1, .classes = 4, .samples = 16}, Prose().words())) {
    std::vector<std::string> lines = LinesOf(item);
    ++counts[std::ranges::count_if(lines, [&](const auto& line) { return line.ends_with(" " + AnswerOf(item)); })];
  }
  EXPECT_EQ(counts, (std::map<int64_t, int>{{1, 16}, {2, 16}}));
}

TEST(MakeShots, EqualSeedsMakeEqualItems) {
  std::string lines;
  for (const Json& item : MakeShots({.shots = {8}, .seeds = 1, .samples = 2}, Prose().words()))
    lines += JsonText(item) + "\n";
  EXPECT_EQ(Sha256Hex(std::as_bytes(std::span(lines))),
            "a866e56bc116f630fc2bb90d4a667af31459e01c56857311eabc1a5e92d12f81");
}

TEST(MakeShots, ADataSetsOtherExamplesAreSamples) {
  const std::vector<Example> data{{"a1", "x"},      {"a2", "x"},      {"a3", "x"},
                                  {"b1", "{text}"}, {"b2", "{text}"}, {"b3", "{text}"}};
  const std::vector<Json> items =
      MakeShots({.shots = {2, 4}, .seeds = 1, .samples = 2, .line = "{text}: {label}."}, data);
  ASSERT_EQ(items.size(), 8u);
  for (const Json& item : items) {
    EXPECT_EQ(item["endings"].size(), 2u);
    const std::vector<std::string> lines = LinesOf(item);
    ASSERT_EQ(lines.size(), item["shots"].get<size_t>() + 1);
    std::set<std::string> texts;
    for (size_t i = 0; i + 1 < lines.size(); ++i) {
      const std::string text = lines[i].substr(0, 2);
      texts.insert(text);
      EXPECT_EQ(lines[i], text + (text[0] == 'a' ? ": x." : ": {text}."));
    }
    EXPECT_EQ(texts.size(), lines.size() - 1);
    const std::string asked = lines.back().substr(0, 2);
    EXPECT_FALSE(texts.contains(asked));
    EXPECT_EQ(lines.back(), asked + ":");
    EXPECT_EQ(AnswerOf(item), asked[0] == 'a' ? "x" : "{text}");
  }
}

TEST(MakeShots, ImpossibleItemsAreRefused) {
  const auto refused = [](const ShotQuestion& question, const char* why) {
    EXPECT_THAT(Call([&] { MakeShots(question, Prose().words()); }), ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused({.shots = {3}}, "shots: got 3, expected at least 4, one of each class");
  refused({.shots = {20}, .classes = 9}, "classes: got 9, expected 2 to 8");
  refused({.line = "{label} {text}"}, "expected {text} and after it {label}");
  const std::vector<Example> data{{"a1", "x"}, {"a2", "x"}, {"b1", "y"}, {"b2", "y"}};
  const auto of_data = [&](const ShotQuestion& question, const char* why) {
    EXPECT_THAT(Call([&] { MakeShots(question, data); }), ThrowsMessage<Error>(HasSubstr(why)));
  };
  of_data({.shots = {6}}, "got 2 of class 'x', expected more of each class");
  of_data({.shots = {2}, .samples = 3}, "samples: got 3, expected at most 2: class 'x' has 1 besides the shots");
  EXPECT_THAT(Call([] { MakeShots({}, std::vector<Example>{{"a", "x"}}); }),
              ThrowsMessage<Error>(HasSubstr("data of 1 classes")));
  EXPECT_THAT(Call([] { ParseShotOrder("x"); }),
              ThrowsMessage<Error>(HasSubstr("got 'x', expected random or alternating")));
  const std::vector<std::string_view> few(5, "word");
  EXPECT_THAT(Call([&] { MakeShots({}, few); }), ThrowsMessage<Error>(HasSubstr("got a text with 1 different words")));
}

TEST(LoadExamples, LinesAreReadOrRefused) {
  const TemporaryFolder folder;
  const auto load = [&](const std::string& text) {
    PutFile(folder / "d.jsonl", text);
    return LoadExamples(folder / "d.jsonl");
  };
  const std::vector<Example> examples = load("{\"text\": \"a\", \"label\": \"x\"}\n\n{\"text\": \"b\", \"label\": 3}");
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(examples[1].label, "3");
  const auto refused = [&](const char* text, const char* why) {
    EXPECT_THAT(Call([&] { load(text); }), ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused("\n", "d.jsonl: got no items");
  refused("{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": 1, \"label\": \"x\"}", "d.jsonl: line 2: \"text\": got 1");
  refused("{\"text\": \"a\"}", "d.jsonl: line 1: \"label\": got none");
  refused("{\"text\": \"a\", \"label\": 0.5}", "\"label\": got 0.5");
}

}  // namespace
}  // namespace tare::shots_test
