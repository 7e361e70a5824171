// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/added_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/support/call.h"

namespace tare::added_tokens_test {
namespace {

using Json = nlohmann::json;
using namespace pipeline;
using pipeline::AddedTokens;
using pipeline::Normalizer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

Json Token(int id, const std::string& content, const std::string& flag = "") {
  Json token{{"id", id}, {"content", content}, {"normalized", false}};
  if (!flag.empty()) token[flag] = true;
  return token;
}

std::vector<std::string> Split(const Json& tokens, const std::string& text, bool as_llama_cpp = false) {
  const AddedTokens added(tokens, Normalizer(Json(), ""), "added_tokens", {.as_llama_cpp = as_llama_cpp});
  std::vector<std::string> parts;
  for (const auto& s : added.Split(text))
    parts.push_back(std::string(s.text) + (s.id ? "=" + std::to_string(*s.id) : ""));
  return parts;
}

TEST(AddedTokens, TheLongestAtThePlace) {
  EXPECT_THAT(Split({Token(1, "ab"), Token(2, "abc"), Token(3, "b")}, "xabcab b"),
              ElementsAre("x", "abc=2", "ab=1", " ", "b=3"));
}

// As in llama.cpp: "bcde" counts though "ab" begins earlier; "ab" is found in what is left.
TEST(AddedTokens, TheLongestWhereverItBegins) {
  const Json tokens{Token(1, "ab"), Token(2, "bcde"), Token(3, "xabc"), Token(4, "e ", "rstrip")};
  EXPECT_THAT(Split(tokens, "abcdeab"), ElementsAre("ab=1", "cde", "ab=1"));
  EXPECT_THAT(Split(tokens, "abcdeab", true), ElementsAre("a", "bcde=2", "ab=1"));
  EXPECT_THAT(Split(tokens, "xabcdexab", true), ElementsAre("xabc=3", "dex", "ab=1"));
  EXPECT_THAT(Split(tokens, "abcde  abe   ab", true), ElementsAre("a", "bcde=2", "  ", "ab=1", "e   =4", "ab=1"));
  EXPECT_THAT(Split(tokens, "", true), IsEmpty());
}

TEST(AddedTokens, Flags) {
  EXPECT_THAT(Split(Json::array({Token(1, "ab", "single_word")}), "ab xab ab_ ab"),
              ElementsAre("ab=1", " xab ab_ ", "ab=1"));
  EXPECT_THAT(Split(Json::array({Token(1, "m", "lstrip")}), "a \t m b"), ElementsAre("a", " \t m=1", " b"));
  EXPECT_THAT(Split(Json::array({Token(1, "m", "rstrip")}),
                    "a m \xc2\xa0"
                    "b"),
              ElementsAre("a ", "m \xc2\xa0=1", "b"));
  EXPECT_THAT(Split(Json::array({Token(1, "m", "lstrip")}), "m m"),
              ElementsAre("m=1", " m=1"));  // not into the one before
}

TEST(AddedTokens, NormalizedOnesAreFoundInNormalizedText) {
  Json token = Token(1, "Ab");
  token["normalized"] = true;
  const AddedTokens added(Json::array({token}), Normalizer(Json{{"type", "Lowercase"}}, ""), "");
  EXPECT_EQ(added.Split("Ab").size(), 1u);
  EXPECT_FALSE(added.Split("Ab")[0].id);
  EXPECT_EQ(added.SplitNormalized("ab")[0].id, 1);
  EXPECT_EQ(added.tokens().at(1).content, "ab");
}

// Looking through all tokens at every place would take minutes.
TEST(AddedTokens, ManyWithOneFirstByte) {
  Json tokens = Json::array();
  for (int i = 0; i < 100'000; ++i) tokens.push_back(Token(i, "a" + std::to_string(i) + "!"));
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "a7a99999!";
  EXPECT_EQ(Split(tokens, text).size(), 20'000u);
  EXPECT_THAT(Call([] { Split(Json::array({Token(1, std::string(5000, 'a'))}), "a"); }),
              ThrowsMessage<Error>(HasSubstr("id 1: got 5000 bytes, expected at most 4096")));
}

TEST(PostProcessor, TemplatesAndPairs) {
  const auto json = nlohmann::json::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
              {"SpecialToken": {"id": "</s>", "type_id": 0}}],
    "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1, 7], "tokens": []},
                                  "</s>": {"id": "</s>", "ids": [2], "tokens": []}}})");
  EXPECT_THAT(ParsePostProcessor(json, "").before, ElementsAre(1, 7));
  EXPECT_THAT(ParsePostProcessor(json, "").after, ElementsAre(2));
  EXPECT_THAT(ParsePostProcessor({{"type", "BertProcessing"}, {"sep", {"[SEP]", 5}}, {"cls", {"[CLS]", 4}}}, "").before,
              ElementsAre(4));
  EXPECT_THAT(ParsePostProcessor({{"type", "ByteLevel"}}, "").before, IsEmpty());
  auto without = json;
  without["special_tokens"].erase("</s>");
  EXPECT_THAT(Call([&] { ParsePostProcessor(without, "p"); }),
              ThrowsMessage<Error>(HasSubstr("special_tokens: got no '</s>'")));
}

TEST(PostProcessor, IdsThatWrapAreRefused) {
  const auto json = nlohmann::json::parse(R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}],
    "special_tokens": {"<s>": {"ids": [4294967297]}}})");
  EXPECT_THAT(Call([&] { ParsePostProcessor(json, "p"); }),
              ThrowsMessage<Error>(HasSubstr("ids: got 4294967297, expected an integer")));
  EXPECT_THAT(Call([] {
                ParsePostProcessor({{"type", "BertProcessing"}, {"sep", {"[SEP]", 4294967296}}, {"cls", {"[CLS]", 4}}},
                                   "p");
              }),
              ThrowsMessage<Error>(HasSubstr("got 4294967296, expected an integer")));
}

TEST(PostProcessor, IdsAroundATextAreFew) {
  const auto of = [](size_t items) {
    const nlohmann::json item{{"SpecialToken", {{"id", "<s>"}}}};
    return nlohmann::json{{"type", "TemplateProcessing"},
                          {"single", std::vector(items, item)},
                          {"special_tokens", {{"<s>", {{"ids", {1, 2}}}}}}};
  };
  EXPECT_EQ(ParsePostProcessor(of(32), "p").before.size(), 64u);
  EXPECT_THAT(Call([&] { ParsePostProcessor(of(33), "p"); }),
              ThrowsMessage<Error>(HasSubstr("got more than 64 ids around")));
  const nlohmann::json several{{"type", "Sequence"}, {"processors", std::vector(3, of(16))}};
  EXPECT_THAT(Call([&] { ParsePostProcessor(several, "p"); }),
              ThrowsMessage<Error>(HasSubstr("got more than 64 ids around")));
}

}  // namespace
}  // namespace tare::added_tokens_test
