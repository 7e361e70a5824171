// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "quant/base/error.h"
#include "quant/file/mapped_file.h"
#include "quant/file/sha256.h"
#include "quant/file/strict_json.h"

namespace tare {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const fs::path kPair = TARE_SOURCE_DIR "/experiments/pair/novels-standard";
const fs::path kData = TARE_SOURCE_DIR "/tests/data/text";

std::string Bytes(const fs::path& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

class TokenizerFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tare-tokenizer-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  void Write(const char* name, const std::string& text) { std::ofstream(folder_ / name) << text; }

  fs::path folder_;
};

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
      Tokenizer::Load(kPair).Encode(Bytes(TARE_SOURCE_DIR "/experiments/pair/heldout.txt"));
  EXPECT_EQ(ids.size(), 497593u);
  EXPECT_EQ(Sha256Hex(std::as_bytes(std::span(ids))),
            "20cd31015619ec205b15c42dac6653a530841ee509fd79d4a183eb204eefcd28");
}

// Texts of many chunks, where spaces, what stands for them, unknown characters and line breaks meet.
TEST(Tokenizer, ChunksChangeNoId) {
  const std::vector<std::string> parts = {"a",
                                          "e",
                                          "the",
                                          "n",
                                          " ",
                                          " ",
                                          "  ",
                                          "\u2581",
                                          "\n",
                                          "\n ",
                                          "7",
                                          ".",
                                          "\u00e9",
                                          "\U0001f600",
                                          "\u3000",
                                          "\t",
                                          std::string(1, '\0'),
                                          "<s>",
                                          "of the"};
  std::mt19937 random(20261121);
  for (const fs::path& path :
       {kPair / "tokenizer.model", kData / "llama.model", kData / "bare.model", kData / "stripped.model",
        kData / "phrases.model", kData / "suffix.model", kData / "mapped.model", kData / "unigram.model"}) {
    const std::string model = Bytes(path);
    const Tokenizer tokenizer(model, path.string());
    sentencepiece::SentencePieceProcessor library;
    ASSERT_TRUE(library.LoadFromSerializedProto(model).ok());
    for (int round = 0; round < 4; ++round) {
      std::string text;
      while (text.size() < 200'000) text += parts[random() % parts.size()];
      if (round % 2 == 1) text += "   ";
      EXPECT_EQ(tokenizer.Encode(text), library.EncodeAsIds(text)) << path << ", round " << round;
    }
    const std::string one_word(200'000, 'a');
    EXPECT_EQ(tokenizer.Encode(one_word), library.EncodeAsIds(one_word)) << path;
  }
}

TEST(Tokenizer, RefusesWhatIsNotUtf8) {
  const Tokenizer tokenizer = Tokenizer::Load(kPair);
  EXPECT_THAT([&] { tokenizer.Encode("caf\xe9"); }, ThrowsMessage<Error>(HasSubstr("0xe9 at offset 3 (line 1)")));
}

TEST_F(TokenizerFolder, MissingModelShowsHowToMakeIds) {
  EXPECT_THAT([&] { Tokenizer::Load(folder_); },
              ThrowsMessage<Error>(AllOf(HasSubstr(folder_.string() + ": no tokenizer.model"),
                                         HasSubstr("AutoTokenizer.from_pretrained(\"" + folder_.string() + "\")"),
                                         HasSubstr("safetensors.torch.save_file({\"input_ids\": "))));
}

TEST_F(TokenizerFolder, DamagedModelsAreRefused) {
  const std::string model = Bytes(kPair / "tokenizer.model");
  for (const std::string& damaged :
       {std::string(), std::string("hello"), model.substr(0, model.size() / 2), std::string(1000, '\0')}) {
    Write("tokenizer.model", damaged);
    EXPECT_THAT([&] { Tokenizer::Load(folder_); }, ThrowsMessage<Error>(HasSubstr("tokenizer.model: got ")))
        << damaged.size();
  }
}

TEST_F(TokenizerFolder, BosIsTheTokenizersUnlessItsConfigSaysNone) {
  Write("tokenizer.model", Bytes(kPair / "tokenizer.model"));
  EXPECT_EQ(Tokenizer::Load(folder_).bos(), 1);
  Write("tokenizer_config.json", R"({"add_bos_token": true})");
  EXPECT_EQ(Tokenizer::Load(folder_).bos(), 1);
  Write("tokenizer_config.json", R"({"add_bos_token": null})");
  EXPECT_EQ(Tokenizer::Load(folder_).bos(), 1);
  Write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  EXPECT_EQ(Tokenizer::Load(folder_).bos(), 1);
  Write("tokenizer_config.json", R"({"add_bos_token": false})");
  EXPECT_EQ(Tokenizer::Load(folder_).bos(), std::nullopt);
  for (const char* bad : {R"({"add_bos_token": "no"})", "[]", "{"}) {
    Write("tokenizer_config.json", bad);
    EXPECT_THAT([&] { Tokenizer::Load(folder_); }, ThrowsMessage<Error>(HasSubstr("tokenizer_config.json"))) << bad;
  }
}

}  // namespace
}  // namespace tare
