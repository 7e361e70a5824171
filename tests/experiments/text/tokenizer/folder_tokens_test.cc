// SPDX-License-Identifier: Apache-2.0
// Files beside a tokenizer. Expected ids and texts are those of AutoTokenizer (transformers 5.12.1, tokenizers 0.23.1).
#include "experiments/text/tokenizer/folder_tokens.h"

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::folder_tokens_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Ids = std::vector<int32_t>;

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
}  // namespace tare::folder_tokens_test
