// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/sentencepiece_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <random>

#include "quant/base/error.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::sentencepiece_tokenizer_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const fs::path kPair = TARE_SOURCE_DIR "/experiments/pair/novels-standard";
const fs::path kData = TARE_SOURCE_DIR "/tests/data/text";

// Texts of many chunks, where spaces, what stands for them, unknown characters and line breaks meet.
TEST(SentencePieceTokenizer, ChunksChangeNoId) {
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
    const SentencePieceTokenizer tokenizer(model, path.string());
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

TEST(SentencePieceTokenizer, PiecesAndBackToText) {
  const SentencePieceTokenizer tokenizer(GetFile(kPair / "tokenizer.model"), "M");
  const std::vector<int32_t> ids = tokenizer.Encode("It was");
  EXPECT_EQ(tokenizer.Decode(ids), "It was");
  EXPECT_EQ(tokenizer.before(), std::vector<int32_t>{1});
  EXPECT_EQ(tokenizer.Piece(1), "<s>");
  EXPECT_EQ(tokenizer.Piece(-1) + tokenizer.Piece(2048), "");
}

std::string Utf8(int c) {  // below U+0800
  if (c < 0x80) return std::string(1, static_cast<char>(c));
  return {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
}

// A table that is taken keeps SentencePiece inside its bytes, whatever text comes.
TEST(SentencePieceTokenizer, ADamagedTableOfCharactersIsRefusedBeforeItIsUsed) {
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
      (void)SentencePieceTokenizer(damaged, "M").Encode(text);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("M: its table of characters is damaged"));
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

// Found by libFuzzer: the library's index throws where nothing may throw, which ends the process.
TEST(SentencePieceTokenizer, APieceWithAZeroByteIsRefusedBeforeItIsUsed) {
  const std::string piece(
      "\x0a\x05\x0a\x03"
      "a\0b",
      7);
  EXPECT_THAT([&] { SentencePieceTokenizer(GetFile(kPair / "tokenizer.model") + piece, "M"); },
              testing::ThrowsMessage<Error>(HasSubstr("M: got a piece with a zero byte")));
}

}  // namespace
}  // namespace tare::sentencepiece_tokenizer_test
