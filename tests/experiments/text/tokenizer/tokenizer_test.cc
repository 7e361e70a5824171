// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>

#include "quant/base/message.h"
#include "quant/file/json.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::tokenizer_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const fs::path kPair = TARE_SOURCE_DIR "/experiments/pair/novels-standard";
const fs::path kData = TARE_SOURCE_DIR "/tests/data/text";

TEST(Tokenizer, EncodesAsSentencePieceInPython) {
  const Tokenizer tokenizer = Tokenizer::Load(kPair);
  EXPECT_EQ(tokenizer.vocabulary(), 2048);
  EXPECT_EQ(tokenizer.bos(), 1);
  for (const auto& entry : ReadJson(kData / "ids.json")) {
    const auto text = entry.at("text").get<std::string>();
    EXPECT_EQ(tokenizer.Encode(text), entry.at("ids").get<std::vector<int32_t>>()) << text;
  }
  EXPECT_TRUE(tokenizer.Encode("").empty());
}

TEST(Tokenizer, EncodesTheHeldOutTextAsSentencePieceInPython) {
  const std::vector<int32_t> ids =
      Tokenizer::Load(kPair).Encode(GetFile(TARE_SOURCE_DIR "/experiments/pair/heldout.txt"));
  EXPECT_EQ(ids.size(), 497593u);
  EXPECT_EQ(Sha256Hex(std::as_bytes(std::span(ids))),
            "20cd31015619ec205b15c42dac6653a530841ee509fd79d4a183eb204eefcd28");
}

TEST(Tokenizer, RefusesWhatIsNotUtf8) {
  const Tokenizer tokenizer = Tokenizer::Load(kPair);
  EXPECT_THAT(Call([&] { tokenizer.Encode("caf\xe9"); }), ThrowsMessage<Error>(HasSubstr("0xe9 at offset 3 (line 1)")));
}

TEST(TokenizerFolder, MissingModelShowsHowToMakeIds) {
  const TemporaryFolder folder;
  EXPECT_THAT(Call([&] { Tokenizer::Load(folder.path()); }),
              ThrowsMessage<Error>(AllOf(HasSubstr(folder.path().string() + ": no tokenizer.json or tokenizer.model"),
                                         HasSubstr("AutoTokenizer.from_pretrained(\"" + folder.path().string() + "\")"),
                                         HasSubstr("safetensors.torch.save_file({\"input_ids\": "))));
}

TEST(TokenizerFolder, DamagedModelsAreRefused) {
  const TemporaryFolder folder;
  const std::string model = GetFile(kPair / "tokenizer.model");
  for (const std::string& damaged :
       {std::string(), std::string("hello"), model.substr(0, model.size() / 2), std::string(1000, '\0')}) {
    PutFile(folder / "tokenizer.model", damaged);
    EXPECT_THAT(Call([&] { Tokenizer::Load(folder.path()); }), ThrowsMessage<Error>(HasSubstr("tokenizer.model: got ")))
        << damaged.size();
  }
}

TEST(TokenizerFolder, BosIsTheTokenizersUnlessItsConfigSaysNone) {
  const TemporaryFolder folder;
  PutFile(folder / "tokenizer.model", GetFile(kPair / "tokenizer.model"));
  EXPECT_EQ(Tokenizer::Load(folder.path()).bos(), 1);
  PutFile(folder / "tokenizer_config.json", R"({"add_bos_token": true})");
  EXPECT_EQ(Tokenizer::Load(folder.path()).bos(), 1);
  PutFile(folder / "tokenizer_config.json", R"({"add_bos_token": null})");
  EXPECT_EQ(Tokenizer::Load(folder.path()).bos(), 1);
  PutFile(folder / "tokenizer_config.json", R"({"bos_token": "<s>"})");
  EXPECT_EQ(Tokenizer::Load(folder.path()).bos(), 1);
  PutFile(folder / "tokenizer_config.json", R"({"add_bos_token": false})");
  EXPECT_EQ(Tokenizer::Load(folder.path()).bos(), std::nullopt);
  PutFile(folder / "tokenizer.json", GetFile(kData / "tokenizers/llama3.json"));  // which has its own
  EXPECT_EQ(Tokenizer::Load(folder.path()).bos(), 0);
  fs::remove(folder / "tokenizer.json");
  for (const char* bad : {R"({"add_bos_token": "no"})", "[]", "{"}) {
    PutFile(folder / "tokenizer_config.json", bad);
    EXPECT_THAT(Call([&] { Tokenizer::Load(folder.path()); }), ThrowsMessage<Error>(HasSubstr("tokenizer_config.json")))
        << bad;
  }
}

// HFLM.prefix_token_id of lm-evaluation-harness 0.4.9.
TEST(TokenizerFolder, PrefixIsTheNamedBosOrElseTheNamedEos) {
  const TemporaryFolder folder;
  PutFile(folder / "tokenizer.model", GetFile(kPair / "tokenizer.model"));
  EXPECT_EQ(Tokenizer::Load(folder.path()).prefix(), std::nullopt);
  PutFile(folder / "tokenizer_config.json", R"({"add_bos_token": false, "bos_token": null, "eos_token": "</s>"})");
  EXPECT_EQ(Tokenizer::Load(folder.path()).prefix(), 2);
  PutFile(folder / "tokenizer_config.json",
          R"({"add_bos_token": false, "bos_token": {"content": "<s>"}, "eos_token": "</s>"})");
  EXPECT_EQ(Tokenizer::Load(folder.path()).prefix(), 1);
}

TEST(RequireSamePieces, NamesTheFirstThatDiffers) {
  const TemporaryFolder a, b, without;
  const std::string pieces = GetFile(kData / "tokenizers/llama3.json");
  PutFile(a / "tokenizer.json", pieces);
  RequireSamePieces(a.path(), without.path());
  // Other ids for the same pieces.
  std::string swapped = pieces;
  const size_t at = swapped.find("\"A\":34"), other = swapped.find("\"B\":35");
  ASSERT_NE(at, std::string::npos);
  ASSERT_NE(other, std::string::npos);
  swapped[at + 1] = 'B', swapped[other + 1] = 'A';
  PutFile(b / "tokenizer.json", swapped);
  EXPECT_THAT(Call([&] { RequireSamePieces(a.path(), b.path()); }),
              ThrowsMessage<Error>(HasSubstr(b.path().string() +
                                             ": tokenizer: got piece \"B\" for id 34, expected "
                                             "\"A\" as in " +
                                             a.path().string())));
  // More pieces in one of them, and another spelling of the file.
  PutFile(b / "tokenizer.json", pieces + "\n");
  PutFile(b / "added_tokens.json", R"({"<x>": 700})");
  RequireSamePieces(a.path(), b.path());
}

}  // namespace
}  // namespace tare::tokenizer_test
