// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/text/tokenizer/text_to_words.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/support/asked_to_stop.h"
#include "tests/support/call.h"

namespace tare::text_to_words_test {
namespace {

using namespace pipeline;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

std::vector<std::string> Cut(const nlohmann::json& json, const std::string& text, bool begins = true) {
  std::vector<std::string> cut;
  PreTokenizer(json, "pre_tokenizer").ForEachWord({text, begins}, [&](const Word& word) {
    cut.emplace_back(word.text);
  });
  return cut;
}

const std::string kMark = "\xe2\x96\x81";

TEST(PreTokenizer, EachKind) {
  EXPECT_THAT(Cut({{"type", "ByteLevel"}}, "It's  12"), ElementsAre(" It", "'s", " ", " 12"));
  EXPECT_THAT(Cut({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}, "It is"),
              ElementsAre("It is"));
  EXPECT_THAT(Cut({{"type", "Digits"}, {"individual_digits", true}}, "a12"), ElementsAre("a", "1", "2"));
  EXPECT_THAT(Cut({{"type", "Digits"}}, "a12b"), ElementsAre("a", "12", "b"));
  EXPECT_THAT(Cut({{"type", "Whitespace"}}, "a_b, c!!"), ElementsAre("a_b", ",", "c", "!!"));
  EXPECT_THAT(Cut({{"type", "WhitespaceSplit"}}, " a, b "), ElementsAre("a,", "b"));
  EXPECT_THAT(Cut({{"type", "Punctuation"}, {"behavior", "MergedWithPrevious"}}, "a, b"), ElementsAre("a,", " b"));
  EXPECT_THAT(
      Cut({{"type", "Split"}, {"pattern", {{"String", "-"}}}, {"behavior", "Removed"}, {"invert", true}}, "a-b"),
      ElementsAre("-"));
}

TEST(PreTokenizer, MetaspaceSchemes) {
  EXPECT_THAT(Cut({{"type", "Metaspace"}}, "a b"), ElementsAre(kMark + "a", kMark + "b"));
  EXPECT_THAT(Cut({{"type", "Metaspace"}}, " a"), ElementsAre(kMark + "a"));  // not twice
  EXPECT_THAT(Cut({{"type", "Metaspace"}, {"prepend_scheme", "first"}}, "a", false), ElementsAre("a"));
  EXPECT_THAT(Cut({{"type", "Metaspace"}, {"prepend_scheme", "first"}, {"split", false}}, "a b"),
              ElementsAre(kMark + "a" + kMark + "b"));
  EXPECT_THAT(Cut({{"type", "Metaspace"}, {"add_prefix_space", false}}, "a"), ElementsAre("a"));
  EXPECT_THROW(Cut({{"type", "Metaspace"}, {"prepend_scheme", "last"}}, "a"), Error);
}

TEST(PreTokenizer, BytesAreLeftToTheModelAtTheEndAlone) {
  const nlohmann::json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}}, digits = {{"type", "Digits"}};
  const auto sequence = [](const nlohmann::json& list) {
    return nlohmann::json{{"type", "Sequence"}, {"pretokenizers", list}};
  };
  EXPECT_TRUE(PreTokenizer(sequence({digits, bytes}), "").ends_in_bytes());
  EXPECT_FALSE(PreTokenizer(sequence({bytes, digits}), "").ends_in_bytes());
  EXPECT_THAT(Cut(sequence({bytes, digits}), " a1"), ElementsAre("\xc4\xa0"
                                                                 "a",
                                                                 "1"));
}

TEST(PreTokenizer, StepsInARowAreBounded) {
  nlohmann::json steps = nlohmann::json::array();
  for (int i = 0; i < 40; ++i) steps.push_back({{"type", "ByteLevel"}, {"use_regex", false}});
  EXPECT_THAT(Call([&] { Cut({{"type", "Sequence"}, {"pretokenizers", steps}}, "\xc3\xa9"); }),
              ThrowsMessage<Error>(HasSubstr("pre_tokenizer: got ")));
  steps = nlohmann::json::array();
  for (int i = 0; i < 65; ++i) steps.push_back({{"type", "WhitespaceSplit"}});
  EXPECT_THAT(Call([&] { Cut({{"type", "Sequence"}, {"pretokenizers", steps}}, "a"); }),
              ThrowsMessage<Error>(HasSubstr("pre_tokenizer: got 65 steps, expected at most 64")));
  EXPECT_THAT(
      Call([] { Cut({{"type", "Metaspace"}, {"replacement", std::string(5000, 'x')}}, std::string(100, ' ')); }),
      ThrowsMessage<Error>(HasSubstr("Replace: got 70000 bytes from a text of 100")));
}

std::string Apply(const nlohmann::json& json, const std::string& text) {
  return Normalizer(json, "normalizer").Apply(text);
}

TEST(Normalizer, EachKind) {
  EXPECT_EQ(Apply({{"type", "Strip"}}, " \t a \xc2\xa0"), "a");
  EXPECT_EQ(Apply({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}}, " a "), " a");
  EXPECT_EQ(Apply({{"type", "Strip"}}, "  "), "");
  EXPECT_EQ(Apply({{"type", "Prepend"}, {"prepend", "_"}}, "a"), "_a");
  EXPECT_EQ(Apply({{"type", "Prepend"}, {"prepend", "_"}}, ""), "");
  EXPECT_EQ(Apply({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}}, "a   b c"), "a b c");
  EXPECT_EQ(Apply({{"type", "NFKC"}}, "\xef\xac\x81"), "fi");
  EXPECT_EQ(Apply({{"type", "Lowercase"}}, "AB"), "ab");
  EXPECT_EQ(Apply({{"type", "ByteLevel"}}, " "), "\xc4\xa0");
  EXPECT_TRUE(Normalizer(nlohmann::json(), "").empty());
}

TEST(Normalizer, EndsWhenAskedToStop) {
  const AskedToStop asked;
  for (const char* type : {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "ByteLevel"})
    EXPECT_THROW(Apply({{"type", type}}, "a"), Interrupted) << type;
  EXPECT_THROW(Apply({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "b"}}, "a"), Interrupted);
  EXPECT_THROW(Cut({{"type", "Metaspace"}, {"split", false}}, "a b"), Interrupted);
  EXPECT_THROW(Cut({{"type", "Sequence"},
                    {"pretokenizers", {{{"type", "ByteLevel"}, {"use_regex", false}}, {{"type", "Digits"}}}}},
                   "a"),
               Interrupted);
}

TEST(Normalizer, SequencesInOrder) {
  const nlohmann::json inner = {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", "X"}}}}};
  const nlohmann::json outer = {{"type", "Sequence"}, {"normalizers", {inner, {{"type", "Lowercase"}}}}};
  EXPECT_EQ(Apply(outer, "A"), "xa");
  EXPECT_THAT(Call([] { Normalizer({{"type", "Sequence"}}, "n"); }),
              ThrowsMessage<Error>(HasSubstr("n: Sequence: got no list normalizers")));
}

TEST(Normalizer, StepsInARowAreBounded) {
  nlohmann::json steps = nlohmann::json::array();
  for (int i = 0; i < 40; ++i)
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  EXPECT_THAT(Call([&] { Apply({{"type", "Sequence"}, {"normalizers", steps}}, "a"); }),
              ThrowsMessage<Error>(HasSubstr("normalizer: got 131072 bytes from a text of 1, expected at most 65552")));
}

TEST(Steps, KeysAndTypes) {
  const nlohmann::json json = {{"a", 1}, {"b", nullptr}};
  EXPECT_EQ(Get<int>(json, "a", "w"), 1);
  EXPECT_EQ(GetOr(json, "b", 7, "w"), 7);
  EXPECT_EQ(GetOr(json, "c", 7, "w"), 7);
  EXPECT_THAT(Call([&] { Get<int>(json, "c", "w"); }), ThrowsMessage<Error>(HasSubstr("w: got no c")));
  EXPECT_THAT(Call([&] { Get<std::string>(json, "a", "w"); }),
              ThrowsMessage<Error>(HasSubstr("w: a: got 1, expected another type")));
}

TEST(Steps, OfSequences) {
  std::vector<pipeline::Json> flat;
  const auto keep = [&](const pipeline::Json& step) { flat.push_back(step); };
  ForEachStep(
      nlohmann::json::parse(R"({"type":"Sequence","list":[{"type":"A"},{"type":"Sequence","list":[{"type":"B"}]}]})"),
      "w", "list", keep);
  ASSERT_EQ(flat.size(), 2u);
  EXPECT_EQ(flat[1]["type"], "B");
  EXPECT_THAT(Call([&] { ForEachStep(pipeline::Json("x"), "w", "list", keep); }),
              ThrowsMessage<Error>(HasSubstr("expected an object or null")));
}

TEST(Growth, SixteenTimesAndABeginning) {
  EXPECT_NO_THROW(pipeline::RequireGrowth(0, 65536, "step"));
  EXPECT_NO_THROW(pipeline::RequireGrowth(10, 65696, "step"));
  EXPECT_THAT(Call([] { pipeline::RequireGrowth(10, 65697, "step"); }),
              ThrowsMessage<Error>(HasSubstr("step: got 65697 bytes from a text of 10, expected at most 65696")));
}

}  // namespace

}  // namespace tare::text_to_words_test
