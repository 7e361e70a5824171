// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <nlohmann/json.hpp>
#include <random>

#include "experiments/text/piece_model.h"
#include "quant/base/error.h"
#include "quant/file/sha256.h"
#include "quant/file/strict_json.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare {
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
    const std::string model = GetFile(path);
    const Tokenizer tokenizer(model, path.string());
    sentencepiece::SentencePieceProcessor library;
    ASSERT_TRUE(library.LoadFromSerializedProto(model).ok());
    for (int round = 0; round < 4; ++round) {
      std::string text;
      while (text.size() < 40'000) text += parts[random() % parts.size()];
      if (round % 2 == 1) text += "   ";
      EXPECT_EQ(tokenizer.Encode(text), library.EncodeAsIds(text)) << path << ", round " << round;
    }
    const std::string one_word(40'000, 'a');
    EXPECT_EQ(tokenizer.Encode(one_word), library.EncodeAsIds(one_word)) << path;
  }
}

TEST(Tokenizer, RefusesWhatIsNotUtf8) {
  const Tokenizer tokenizer = Tokenizer::Load(kPair);
  EXPECT_THAT([&] { tokenizer.Encode("caf\xe9"); }, ThrowsMessage<Error>(HasSubstr("0xe9 at offset 3 (line 1)")));
}

TEST(TokenizerFolder, MissingModelShowsHowToMakeIds) {
  const TemporaryFolder folder;
  EXPECT_THAT([&] { Tokenizer::Load(folder.path()); },
              ThrowsMessage<Error>(AllOf(HasSubstr(folder.path().string() + ": no tokenizer.model"),
                                         HasSubstr("AutoTokenizer.from_pretrained(\"" + folder.path().string() + "\")"),
                                         HasSubstr("safetensors.torch.save_file({\"input_ids\": "))));
}

TEST(TokenizerFolder, DamagedModelsAreRefused) {
  const TemporaryFolder folder;
  const std::string model = GetFile(kPair / "tokenizer.model");
  for (const std::string& damaged :
       {std::string(), std::string("hello"), model.substr(0, model.size() / 2), std::string(1000, '\0')}) {
    PutFile(folder / "tokenizer.model", damaged);
    EXPECT_THAT([&] { Tokenizer::Load(folder.path()); }, ThrowsMessage<Error>(HasSubstr("tokenizer.model: got ")))
        << damaged.size();
  }
}

std::string Utf8(int c) {  // below U+0800
  if (c < 0x80) return std::string(1, static_cast<char>(c));
  return {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
}

// A table that is taken keeps SentencePiece inside its bytes, whatever text comes.
TEST(Tokenizer, ADamagedTableOfCharactersIsRefusedBeforeItIsUsed) {
  const std::string model = GetFile(kData / "mapped.model");
  const std::optional<std::string_view> map = CharacterMapOf(model);
  ASSERT_TRUE(map.has_value());
  const size_t begin = static_cast<size_t>(map->data() - model.data());
  std::string text;
  for (int c = 1; c < 0x800; ++c) text += Utf8(c);
  int refused = 0;
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    std::string damaged = model;
    for (int byte = 0; byte < 8; ++byte) damaged[begin + random() % map->size()] = static_cast<char>(random());
    try {
      (void)Tokenizer(damaged, "M").Encode(text);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("M: its table of characters is damaged"));
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
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
  for (const char* bad : {R"({"add_bos_token": "no"})", "[]", "{"}) {
    PutFile(folder / "tokenizer_config.json", bad);
    EXPECT_THAT([&] { Tokenizer::Load(folder.path()); }, ThrowsMessage<Error>(HasSubstr("tokenizer_config.json")))
        << bad;
  }
}

}  // namespace
}  // namespace tare
