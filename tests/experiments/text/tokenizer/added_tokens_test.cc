// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/text/tokenizer/added_tokens.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::added_tokens_test {
namespace {

using Ids = std::vector<int32_t>;
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

struct Case {
  const char* text;
  Ids ids;
  const char* decoded;
};

class FolderTokensTest : public testing::Test {
 protected:
  // "tokenizer.model" and the pieces of the demo models, or "tokenizer.json" and a style's; other files as given.
  void Fill(const std::string& name, const std::map<std::string, std::string>& files) {
    PutFile(folder_ / name,
            GetFile(name == "tokenizer.json" ? TARE_SOURCE_DIR "/tests/data/text/tokenizers/llama3.json"
                                             : TARE_SOURCE_DIR "/experiments/pair/novels-standard/tokenizer.model"));
    for (const auto& [file, contents] : files) PutFile(folder_ / file, contents);
  }
  Tokenizer Loaded() const { return Tokenizer::Load(folder_.path()); }
  void Expect(const std::vector<Case>& cases) const {
    const Tokenizer tokenizer = Loaded();
    for (const Case& c : cases) {
      EXPECT_EQ(tokenizer.Encode(c.text), c.ids) << c.text;
      EXPECT_EQ(tokenizer.Decode(c.ids), c.decoded) << c.text;
    }
  }

  const TemporaryFolder folder_;
};

constexpr const char* kAdded = R"({"<x>": 2048, "<y>": 2049})";

TEST_F(FolderTokensTest, AddedTokensOfAModelAndItsControlPieces) {
  Fill("tokenizer.model", {{"added_tokens.json", kAdded}});
  Expect({{"It was<x> a night<x>here<y>", {581, 310, 2048, 261, 838, 2048, 879, 2049}, "It was<x> a night<x>here<y>"},
          {"<x>It", {2048, 1094}, "<x>It"},
          {"<s>It was", {1, 1094, 310}, "It was"},
          {"It </s> was<unk>it", {581, 1975, 2, 310, 0, 275}, "It  wasit"},
          {"It was  <x>  dark", {581, 310, 1975, 1975, 2048, 1975, 1201}, "It was  <x>  dark"}});
  EXPECT_EQ(Loaded().vocabulary(), 2050);
  EXPECT_EQ(Loaded().Piece(2049), "<y>");
}

TEST_F(FolderTokensTest, LegacyPutsASpaceInFrontOfEveryPart) {
  Fill("tokenizer.model", {{"added_tokens.json", kAdded}, {"tokenizer_config.json", R"({"legacy": true})"}});
  Expect({{"It was<x> a night<x>here<y>", {581, 310, 2048, 261, 838, 2048, 751, 2049}, "It was<x> a night<x> here<y>"},
          {"<x>It", {2048, 581}, "<x> It"},
          {"<s>It was", {1, 581, 310}, "It was"},
          {"It </s> was<unk>it", {581, 1975, 2, 310, 0, 322}, "It  was it"}});
}

TEST_F(FolderTokensTest, WithoutAPrefixSpaceTextsAreAsTheyAre) {
  for (const char* legacy : {"", R"(, "legacy": true)", R"(, "legacy": false)"}) {
    Fill("tokenizer.model", {{"tokenizer_config.json", std::string(R"({"add_prefix_space": false)") + legacy + "}"}});
    Expect({{"It was a night", {1094, 310, 261, 838}, "It was a night"},
            {" It was", {581, 310}, " It was"},
            {"  It", {1975, 581}, "  It"},
            {"<s>It was", {1, 1094, 310}, "It was"},
            {"It</s>was <unk> it", {1094, 2, 1989, 289, 1975, 0, 322}, "Itwas  it"}});
  }
}

TEST_F(FolderTokensTest, ADecoderGivesFlagsAndReplacesTheOtherFiles) {
  const char* config = R"({"add_bos_token": true, "add_eos_token": true, "added_tokens_decoder": {
      "2049": {"content": "<y>", "lstrip": true, "rstrip": false, "normalized": true, "single_word": true,
               "special": false},
      "2048": {"content": "<x>", "lstrip": false, "rstrip": true, "normalized": false, "single_word": false,
               "special": true}}})";
  Fill("tokenizer.model", {{"tokenizer_config.json", config},
                           {"special_tokens_map.json", R"({"pad_token": "<pad>"})"},
                           {"added_tokens.json", R"({"<z>": 2050})"}});
  Expect({{"It was<x> a night<x>here<y>", {581, 310, 2048, 1978, 838, 2048, 879, 63, 1993, 65}, "It wasa nighthere<y>"},
          {"It <y> was", {581, 2049, 310}, "It<y> was"},
          {"a<pad>b", {261, 63, 1995, 346, 65, 1996}, "a<pad>b"},
          {"It was  <x>  dark", {581, 310, 1975, 1975, 2048, 1985, 730}, "It was  dark"}});
  EXPECT_THAT(Loaded().before(), ElementsAre(1));
  EXPECT_THAT(Loaded().after(), ElementsAre(2));
}

TEST_F(FolderTokensTest, NamedTokensComeLastInTheirOrder) {
  Fill("tokenizer.model",
       {{"added_tokens.json", kAdded},
        {"special_tokens_map.json", R"({"pad_token": "<pad>", "sep_token": {"content": "<sep>", "lstrip": false,
           "rstrip": false, "normalized": false, "single_word": false}, "eos_token": "<y>"})"},
        {"tokenizer_config.json", R"({"add_eos_token": true})"}});
  Expect({{"It was<x> a night<x>here<y>", {581, 310, 2048, 261, 838, 2048, 879, 2049}, "It was<x> a night<x>here"},
          {"a<pad>b", {261, 2051, 1996}, "ab"},
          {"<sep>", {2050}, ""}});
  EXPECT_THAT(Loaded().after(), ElementsAre(2049));
}

TEST_F(FolderTokensTest, ExtraTokensFollow) {
  Fill("tokenizer.model",
       {{"tokenizer_config.json", R"({"pad_token": "<pad>", "extra_special_tokens": ["<e>"], "bos_token": null})"}});
  Expect({{"a<pad>b", {261, 2048, 1996}, "ab"}});
  EXPECT_EQ(Loaded().Encode("<e>"), Ids{2049});
  EXPECT_FALSE(Loaded().bos());
}

TEST_F(FolderTokensTest, TokensBesideATokenizerJson) {
  const char* config = R"({"add_bos_token": false, "added_tokens_decoder": {
      "700": {"content": "<x>", "lstrip": false, "rstrip": true, "normalized": false, "single_word": false,
              "special": true},
      "0": {"content": "<|begin_of_text|>", "lstrip": true, "rstrip": false, "normalized": false,
            "single_word": false, "special": true}}})";
  Fill("tokenizer.json", {{"tokenizer_config.json", config}});
  Expect({{"It was <x> a", {42, 85, 320, 222, 700, 66}, "It was a"},
          {"It  <|begin_of_text|> was", {42, 85, 0, 320}, "It was"}});
  EXPECT_EQ(Loaded().bos(), 0);  // the file's own; the key is dropped
  Fill("tokenizer.json", {{"tokenizer_config.json", "{}"},
                          {"added_tokens.json", R"({"<x>": 700})"},
                          {"special_tokens_map.json", R"({"pad_token": "<pad>"})"}});
  Expect({{"It was <x> a", {42, 85, 320, 222, 700, 259}, "It was <x> a"},
          {"It  <|begin_of_text|> was", {42, 85, 222, 222, 0, 320}, "It   was"},
          {"a<pad>b", {66, 701, 67}, "ab"}});
}

TEST_F(FolderTokensTest, OtherIdsAndDamageAreRefused) {
  const auto refused = [&](const char* file, const char* contents, const char* message) {
    std::map<std::string, std::string> files{{"added_tokens.json", "{}"}, {"tokenizer_config.json", "{}"}};
    files[file] = contents;
    Fill("tokenizer.model", files);
    EXPECT_THAT(Call([&] { Loaded(); }), ThrowsMessage<Error>(HasSubstr(message))) << contents;
  };
  refused("added_tokens.json", R"({"<x>": 2053})", "added tokens: '<x>': got id 2053, expected 2048");
  refused("added_tokens.json", R"({"\u2581was": 7})", "got id 7, expected 310");
  refused("added_tokens.json", R"({"<x>": "a"})", "added_tokens.json: <x>: got \"a\", expected an integer");
  refused("tokenizer_config.json", R"({"added_tokens_decoder": {"a": {}}})", "added_tokens_decoder: 'a': got object");
  refused("tokenizer_config.json", R"({"added_tokens_decoder": []})", "added_tokens_decoder: got array");
  refused("tokenizer_config.json", R"({"added_tokens_decoder": {"2048": {}}})", "got no content");
  refused("tokenizer_config.json", R"({"pad_token": {"a": 1}})", "tokenizer_config.json: pad_token: got no content");
  // transformers 5.12 cuts "<s>" in a text into pieces then.
  refused("tokenizer_config.json", R"({"split_special_tokens": true})", "split_special_tokens: got true");
  refused("special_tokens_map.json", "[]", "special_tokens_map.json: got array, expected an object");
}

}  // namespace

}  // namespace tare::added_tokens_test
