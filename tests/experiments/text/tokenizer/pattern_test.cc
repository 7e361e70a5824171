// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/text_to_words.h"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/support/call.h"

namespace tare::pattern_test {
namespace {

using Range = std::pair<size_t, size_t>;
using pipeline::Behaviour;
using pipeline::Cut;
using pipeline::Part;
using pipeline::Pattern;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<Part> Parts(const Pattern& pattern, std::string_view text) {
  std::vector<Part> parts;
  pattern.ForEachPart(text, [&](const Part& part) { parts.push_back(part); });
  return parts;
}

std::vector<std::string> CutText(const Pattern& pattern, const std::string& text, Behaviour behaviour) {
  std::vector<std::string> cut;
  pipeline::Cut parts(behaviour,
                      [&](const Part& part) { cut.push_back(text.substr(part.begin, part.end - part.begin)); });
  pattern.ForEachPart(text, [&](const Part& part) { parts.Add(part); });
  parts.End();
  return cut;
}

// The example of the library's own documentation: "the-final--countdown" cut at "-".
TEST(Pattern, EveryBehaviour) {
  const Pattern dash = Pattern::Literal("-");
  const std::string text = "the-final--countdown";
  EXPECT_THAT(CutText(dash, text, Behaviour::kRemoved), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(CutText(dash, text, Behaviour::kIsolated), ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(CutText(dash, text, Behaviour::kMergedWithPrevious), ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(CutText(dash, text, Behaviour::kMergedWithNext), ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(CutText(dash, text, Behaviour::kContiguous), ElementsAre("the", "-", "final", "--", "countdown"));
}

TEST(Pattern, NothingAndEmptyMatches) {
  EXPECT_TRUE(Parts(Pattern::Literal("-"), "").empty());
  EXPECT_TRUE(Parts(Pattern::Literal(""), "ab")[0].is_match == false);
  EXPECT_THAT(CutText(Pattern::Regex("x*", ""), "\xc3\xa4xx", Behaviour::kIsolated), ElementsAre("\xc3\xa4", "xx"));
}

std::string Matches(const std::string& expression, const std::string& text) {
  std::string found;
  for (const Part& part : Parts(Pattern::Regex(expression, "w"), text))
    if (part.is_match) found += text.substr(part.begin, part.end - part.begin) + "|";
  return found;
}

// Where PCRE2's own reading is another.
TEST(Pattern, ExpressionsMeanWhatTheyMeanInRuby) {
  const std::string vowel_separator = "\xe1\xa0\x8e", next_line = "\xc2\x85";
  EXPECT_EQ(Matches(R"(\s)", vowel_separator + next_line), next_line + "|");
  EXPECT_EQ(Matches(R"([^\s])", vowel_separator + next_line), vowel_separator + "|");
  EXPECT_EQ(Matches(R"(\w+)", "a1\xc2\xb2_-"), "a1\xc2\xb2_|");
  EXPECT_EQ(Matches(R"([\w-]+)", "a1\xc2\xb2_-"), "a1\xc2\xb2_-|");
  EXPECT_EQ(Matches(R"(^a$)", "a\na"), "a|a|");
  EXPECT_EQ(Matches(R"(\p{Han}+)", "\xe6\x97\xa5\xe3\x80\x81"), "\xe6\x97\xa5|");  // not the ideographic comma
  EXPECT_EQ(Matches(R"((?i:'s))", "'\xc5\xbf"), "'\xc5\xbf|");                     // the long s
  EXPECT_EQ(Matches(R"(\s+(?!\S)|\s+)", "a   b"), "  | |");
}

TEST(Pattern, UnsupportedPatternsAreRefused) {
  EXPECT_THAT(Call([] { Pattern::Regex("(a", "t.json"); }),
              ThrowsMessage<Error>(HasSubstr("t.json: pattern '(a': got an expression")));
  EXPECT_THAT(Call([] { Pattern::Regex("[a&&b]", "t"); }), ThrowsMessage<Error>(HasSubstr("nested brackets")));
  EXPECT_THAT(Call([] { Pattern::Regex("[a[b]]", "t"); }), ThrowsMessage<Error>(HasSubstr("nested brackets")));
  EXPECT_THAT(Call([] { Pattern::Parse(nlohmann::json{{"Glob", "*"}}, "t"); }),
              ThrowsMessage<Error>(HasSubstr("expected a String or a Regex")));
}

TEST(Pattern, ACatastrophicExpressionEndsWithAMessage) {
  const Pattern pattern = Pattern::Regex("(a|aa)+$", "t.json");
  EXPECT_THAT(Call([&] { Parts(pattern, std::string(60, 'a') + "b"); }),
              ThrowsMessage<Error>(HasSubstr("t.json: pattern: too costly")));
}

// The limit is of the text: each match by itself is cheap enough, and there is one at every byte.
TEST(Pattern, ATextHasOneBudget) {
  const Pattern pattern = Pattern::Regex("(a+)+[bc]|a", "t.json");
  EXPECT_THAT(Call([&] { Parts(pattern, std::string(1000, 'a')); }),
              ThrowsMessage<Error>(HasSubstr("t.json: pattern: too costly")));
  const std::string run(200'000, ' ');  // one match of more than the first limit
  EXPECT_EQ(Parts(Pattern::Regex(R"((?:\s|\t)+(?!\S))", "t"), run).size(), 1u);
}

// \K in a group that is called, or looked ahead to, sets the beginning behind the end.
TEST(Pattern, AMatchGoesOn) {
  for (const char* expression : {R"((?=(?:(?1)))|(b\K))", R"((?=(?1))(?:(ab\K)){0})", R"(a(?=(?1))(?:(.\K)){0})"}) {
    EXPECT_THAT(Call([&] { Parts(Pattern::Regex(expression, "t.json"), "abab bb"); }),
                ThrowsMessage<Error>(HasSubstr("t.json: pattern")))
        << expression;
  }
  EXPECT_EQ(Matches(R"(a\Kb)", "abab"), "b|b|");
}

TEST(Pattern, ReplacedTextIsBounded) {
  EXPECT_THAT(Call([] { Pattern::Literal("a").Replaced(std::string(1000, 'a'), std::string(1000, 'b')); }),
              ThrowsMessage<Error>(HasSubstr("Replace: got 82000 bytes from a text of 1000, expected at most 81536")));
}

// Part by part against the library's rule on a whole list, for every behaviour, with empty parts and equal neighbours.
// tokenizers/src/tokenizer/normalizer.rs, split: MergedWithNext goes from the end.
std::vector<Range> WholeList(std::vector<Part> parts, Behaviour behaviour) {
  std::vector<Part> cut;
  const bool backwards = behaviour == Behaviour::kMergedWithNext;
  if (backwards) std::ranges::reverse(parts);
  bool previous = false;
  for (const Part& part : parts) {
    const bool joins = behaviour == Behaviour::kContiguous
                           ? part.is_match == previous
                           : part.is_match && !previous && behaviour != Behaviour::kIsolated;
    previous = part.is_match;
    if (behaviour == Behaviour::kRemoved) {
      if (!part.is_match) cut.push_back(part);
    } else if (!joins || cut.empty()) {
      cut.push_back(part);
    } else if (backwards) {
      cut.back().begin = part.begin;
    } else {
      cut.back().end = part.end;
    }
  }
  if (backwards) std::ranges::reverse(cut);
  std::vector<Range> ranges;
  for (const Part& part : cut) {
    if (part.begin != part.end) ranges.emplace_back(part.begin, part.end);
  }
  return ranges;
}

std::vector<Range> PartByPart(const std::vector<Part>& parts, Behaviour behaviour) {
  std::vector<Range> ranges;
  Cut cut(behaviour, [&](const Part& part) { ranges.emplace_back(part.begin, part.end); });
  for (const Part& part : parts) cut.Add(part);
  cut.End();
  return ranges;
}

constexpr Behaviour kEach[] = {Behaviour::kRemoved, Behaviour::kIsolated, Behaviour::kMergedWithPrevious,
                               Behaviour::kMergedWithNext, Behaviour::kContiguous};

TEST(Cut, IsTheRuleOnAWholeList) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Part> parts;
    for (size_t at = 0, count = random() % 8; parts.size() < count;) {
      const size_t end = at + random() % 3;
      parts.push_back({at, end, random() % 2 == 0});
      at = end;
    }
    for (const Behaviour behaviour : kEach) EXPECT_EQ(PartByPart(parts, behaviour), WholeList(parts, behaviour));
  }
}

TEST(Cut, BehavioursByName) {
  EXPECT_EQ(pipeline::ParseBehaviour("MergedWithNext", "t"), Behaviour::kMergedWithNext);
  EXPECT_THAT(Call([] { pipeline::ParseBehaviour("Cut", "t"); }),
              ThrowsMessage<Error>(HasSubstr("t: behavior: got \"Cut\", expected Removed, Isolated")));
}

}  // namespace
}  // namespace tare::pattern_test
