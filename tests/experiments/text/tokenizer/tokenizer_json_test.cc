// SPDX-License-Identifier: Apache-2.0
// Tokenizers of every style against the tokenizers library (tests/data/text/tokenizers/make.py), and inconsistent
// files.
#include "experiments/text/tokenizer/tokenizer_json.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::tokenizer_json_test {
namespace {

using Json = nlohmann::json;
using namespace pipeline;
using pipeline::TokenizerJson;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

const std::filesystem::path kStyles = TARE_SOURCE_DIR "/tests/data/text/tokenizers";

std::string FileOf(const std::string& style) { return GetFile(kStyles / (style + ".json")); }

class StyleTest : public testing::TestWithParam<const char*> {};

TEST_P(StyleTest, GivesTheIdsAndTextOfTheLibrary) {
  const std::string style = GetParam();
  const TokenizerJson tokenizer(FileOf(style), style);
  size_t cases = 0;
  for (const Json& c : ReadJson(kStyles / (style + ".cases"))) {
    const auto text = c.at("text").get<std::string>();
    const auto ids = c.at("ids").get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer.Encode(text), ids) << text;
    EXPECT_EQ(tokenizer.Decode(ids), c.at("decoded").get<std::string>()) << text;
    ++cases;
  }
  EXPECT_GE(cases, 40u);
}

INSTANTIATE_TEST_SUITE_P(All, StyleTest,
                         testing::Values("gpt2", "roberta", "llama3", "qwen2", "o200k", "smollm", "deepseek", "neox",
                                         "llama2", "mistral", "gemma", "nofuse", "unigram", "unigram-bytes",
                                         "unigram-precompiled", "words", "clip"));

// Ids of transformers 5.12.1.
TEST(TokenizerJson, OfOverlappingAddedTokensTheLeftmostAndThenTheLongest) {
  Json json = Json::parse(FileOf("qwen2"));
  int64_t id = 700;
  for (const char* text : {"<ab>", "b>c", "<ab>c<d", "xy", "xyz", "yzw", "zw"}) {
    json["added_tokens"].push_back({{"id", id++},
                                    {"content", text},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
  }
  const TokenizerJson tokenizer(json.dump(), "overlapping");
  EXPECT_THAT(tokenizer.Encode("<ab>c<d>"), ElementsAre(702, 30));
  EXPECT_THAT(tokenizer.Encode("axyzyzw"), ElementsAre(65, 704, 705));
  EXPECT_THAT(tokenizer.Encode("yzwxy zw"), ElementsAre(705, 703, 221, 706));
  EXPECT_THAT(tokenizer.Encode("b>c<ab>c"), ElementsAre(701, 700, 67));
  EXPECT_THAT(tokenizer.Encode("xyxyzzw"), ElementsAre(703, 704, 706));
}

TEST(TokenizerJson, SpecialTokensGoAround) {
  EXPECT_THAT(TokenizerJson(FileOf("llama2"), "").before(), ElementsAre(1));
  EXPECT_THAT(TokenizerJson(FileOf("llama3"), "").before(), ElementsAre(0));
  EXPECT_THAT(TokenizerJson(FileOf("gpt2"), "").before(), ElementsAre());
  const TokenizerJson roberta(FileOf("roberta"), ""), unigram(FileOf("unigram"), "");
  EXPECT_THAT(roberta.before(), ElementsAre(0));
  EXPECT_THAT(roberta.after(), ElementsAre(1));
  EXPECT_THAT(unigram.after(), ElementsAre(2));
}

TEST(TokenizerJson, PiecesAndVocabulary) {
  const TokenizerJson neox(FileOf("neox"), "");
  EXPECT_EQ(neox.vocabulary(), 723);
  EXPECT_EQ(neox.Piece(0), "<|endoftext|>");
  EXPECT_EQ(neox.Piece(722), "  ");  // an added one
  EXPECT_EQ(neox.Piece(723), "");
  EXPECT_EQ(neox.Piece(-1), "");
  EXPECT_EQ(neox.Decode({723, -5}), "");
}

// A long text that is one word gives the ids of its parts, wherever a cut falls.
TEST(TokenizerJson, ALongWordIsCutWithoutAnotherOutcome) {
  const TokenizerJson llama(FileOf("llama2"), ""), gpt(FileOf("gpt2"), "");
  for (const std::string part : {"a", "the magic", "\xe6\x97\xa5", "<0x41>", " "}) {
    std::string text;
    while (text.size() < 500) text += part;
    for (const TokenizerJson* tokenizer : {&llama, &gpt}) EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text)), text);
  }
}

// The message for a file with `change` made.
std::string Refused(const std::string& style, const std::function<void(Json&)>& change) {
  Json json = Json::parse(FileOf(style));
  change(json);
  try {
    const TokenizerJson tokenizer(json.dump(), "t.json");
    return "taken";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(TokenizerJson, UnknownTypesAreRefusedByName) {
  EXPECT_THAT(Refused("gpt2", [](Json& j) { j["model"]["type"] = "WordPiece"; }),
              HasSubstr("t.json: model: got type WordPiece, expected BPE or Unigram"));
  EXPECT_THAT(Refused("gpt2", [](Json& j) { j["pre_tokenizer"]["type"] = "UnicodeScripts"; }),
              HasSubstr("t.json: pre_tokenizer: got type UnicodeScripts, expected one of: ByteLevel, Digits,"));
  EXPECT_THAT(Refused("unigram", [](Json& j) { j["normalizer"]["normalizers"][0]["type"] = "Nmt"; }),
              HasSubstr("t.json: normalizer: got type Nmt"));
  EXPECT_THAT(Refused("llama2", [](Json& j) { j["decoder"]["decoders"][0]["type"] = "CTC"; }),
              HasSubstr("got type CTC"));
  EXPECT_THAT(Refused("llama2", [](Json& j) { j["post_processor"]["type"] = "X"; }), HasSubstr("got type X"));
  EXPECT_THAT(Refused("gpt2", [](Json& j) { j["model"]["dropout"] = 0.1; }), HasSubstr("dropout: got 0.1"));
}

TEST(TokenizerJson, InconsistentFilesAreRefused) {
  EXPECT_THAT(Refused("gpt2", [](Json& j) { j["model"]["merges"].push_back("zz yy"); }),
              AllOf(HasSubstr("merges: "), HasSubstr("got 'zz' and 'yy', but vocab has no 'zz'")));
  EXPECT_THAT(Refused("gpt2", [](Json& j) { j["model"]["merges"][0] = "one"; }), HasSubstr("expected two pieces"));
  EXPECT_THAT(Refused("gpt2", [](Json& j) { j["model"]["vocab"]["new"] = 5; }), HasSubstr("got id 5 of '"));
  EXPECT_THAT(Refused("gpt2", [](Json& j) { j["model"]["vocab"]["new"] = -1; }), HasSubstr("got id -1, expected 0 to"));
  EXPECT_THAT(Refused("gpt2", [](Json& j) { j["model"]["vocab"]["new"] = 4'000'000'000; }), HasSubstr("expected 0 to"));
  EXPECT_THAT(Refused("gpt2", [](Json& j) { j["model"]["vocab"]["new"] = "x"; }), HasSubstr("expected an id"));
  EXPECT_THAT(Refused("unigram", [](Json& j) { j["model"]["unk_id"] = 700; }), HasSubstr("unk_id: got 700"));
  EXPECT_THAT(Refused("unigram", [](Json& j) { j["model"]["vocab"][3][1] = "x"; }),
              HasSubstr("expected [piece, score]"));
  EXPECT_THAT(Refused("neox", [](Json& j) { j["added_tokens"][1]["id"] = 0; }), HasSubstr("added_tokens: got id 0 of"));
  EXPECT_THAT(Refused("llama2", [](Json& j) { j["post_processor"]["special_tokens"]["<s>"]["ids"][0] = 9999; }),
              HasSubstr("post_processor: got id 9999, which is no token"));
  EXPECT_THAT(Refused("llama2", [](Json& j) { j["model"]["unk_token"] = "none"; }), HasSubstr("unk_token: got 'none'"));
  EXPECT_THAT(Refused("llama2", [](Json& j) { j.erase("model"); }), HasSubstr("got no model"));
  EXPECT_THAT(Refused("llama2", [](Json& j) { j["model"]["fuse_unk"] = "yes"; }), HasSubstr("fuse_unk: got \"yes\""));
  const TokenizerJson tokenizer(FileOf("gpt2"), "");
  EXPECT_THAT(Call([&] { (void)tokenizer.Encode("\xff"); }), ThrowsMessage<Error>(HasSubstr("UTF-8")));
}

std::string Decode(const nlohmann::json& json, std::vector<std::string> pieces) {
  return Decoder(json, "decoder").Apply(std::move(pieces));
}

TEST(Decoder, EachKind) {
  EXPECT_EQ(Decode({{"type", "ByteLevel"}}, {"\xc4\xa0It", "\xc4\x8a"}), " It\n");
  EXPECT_EQ(Decode({{"type", "ByteLevel"}}, {"\xc3\xa6"}), "\xef\xbf\xbd");  // a first byte alone
  EXPECT_EQ(Decode({{"type", "ByteFallback"}}, {"<0xE6>", "<0x97>", "<0xA5>", "a", "<0xE6>", "<0xE6>"}),
            "\xe6\x97\xa5"
            "a\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(Decode({{"type", "Metaspace"}}, {"\xe2\x96\x81It", "\xe2\x96\x81was"}), "It was");
  EXPECT_EQ(Decode({{"type", "Metaspace"}, {"prepend_scheme", "never"}}, {"\xe2\x96\x81It"}), " It");
  EXPECT_EQ(Decode({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 2}}, {"  a   "}), " a ");
  EXPECT_EQ(Decode({{"type", "Replace"}, {"pattern", {{"String", "_"}}}, {"content", " "}}, {"a_b", "_"}), "a b ");
  EXPECT_EQ(Decode(nlohmann::json(), {"a", "b"}), "a b");
}

TEST(Decoder, EndlessAndGrowingStepsAreBounded) {
  EXPECT_EQ(Decode({{"type", "Strip"}, {"content", ""}, {"start", 1'000'000'000'000}}, {"a"}), "a");
  nlohmann::json steps = nlohmann::json::array();
  for (int i = 0; i < 40; ++i)
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  EXPECT_THAT(Call([&] { Decode({{"type", "Sequence"}, {"decoders", steps}}, {"a"}); }),
              ThrowsMessage<Error>(HasSubstr("decoder: got 131072 bytes from a text of 1")));
}

}  // namespace
}  // namespace tare::tokenizer_json_test
