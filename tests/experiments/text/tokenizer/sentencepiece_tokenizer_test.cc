// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/sentencepiece_tokenizer.h"

#include <chrono>
#include <random>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::sentencepiece_tokenizer_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

namespace fs = std::filesystem;

const fs::path kPair = TARE_SOURCE_DIR "/experiments/pair/novels-standard";
const fs::path kData = TARE_SOURCE_DIR "/tests/data/text";

double SecondsOf(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The library encodes it in one call.
TEST(SentencePieceTokenizer, AWholeTextEndsWhenAskedToStop) {
  const SentencePieceTokenizer tokenizer(GetFile(kData / "unigram.model"), "");
  std::string text;
  while (text.size() < 2'000'000) text += "It was a dark and stormy night; the rain fell in torrents.\n";
  const double whole = SecondsOf([&] { tokenizer.Encode(text); });
  const double stopped = SecondsOf([&] {
    const std::jthread asks([&] {
      std::this_thread::sleep_for(std::chrono::duration<double>(whole / 8));
      RequestStop();
    });
    EXPECT_THROW(tokenizer.Encode(text), Interrupted);
  });
  ForgetStop();
  EXPECT_LT(stopped, whole / 2);
  std::this_thread::sleep_for(std::chrono::duration<double>(2 * whole));  // until the call that was left has ended
}

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
  const std::string_view map = ReadPieceModel(model).character_map;
  ASSERT_FALSE(map.empty());
  const size_t begin = static_cast<size_t>(map.data() - model.data());
  std::string text;
  for (int c = 1; c < 0x800; ++c) text += Utf8(c);
  int refused = 0;
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    std::string damaged = model;
    for (int byte = 0; byte < 8; ++byte) damaged[begin + random() % map.size()] = static_cast<char>(random());
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

std::string File(const std::string& path) { return GetFile(TARE_SOURCE_DIR "/" + path); }

ChunkRule RuleOf(std::string_view bytes) { return tare::RuleOf(ReadPieceModel(bytes)); }

TEST(ChunkRule, EachRuleWhereItIsSafe) {
  EXPECT_EQ(RuleOf(File("experiments/pair/novels-standard/tokenizer.model")), ChunkRule::kDropSpace);
  EXPECT_EQ(RuleOf(File("tests/data/text/llama.model")), ChunkRule::kDropSpace);
  EXPECT_EQ(RuleOf(File("tests/data/text/bare.model")), ChunkRule::kKeepSpace);
  for (const char* name : {"stripped", "phrases", "suffix", "mapped", "unigram"}) {
    EXPECT_EQ(RuleOf(File(std::string("tests/data/text/") + name + ".model")), ChunkRule::kWhole) << name;
  }
}

// Protobuf's wire format, of short things.
std::string Bytes(int number, const std::string& value) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(value.size())} + value;
}
std::string Flag(int number, int value) {
  std::string tag(1, static_cast<char>(number << 3 | (number < 16 ? 0 : 0x80)));
  if (number >= 16) tag += static_cast<char>(number >> 4);
  return tag + static_cast<char>(value);
}
std::string Model(const std::string& trainer, const std::string& normalizer, const std::string& pieces) {
  return pieces + Bytes(2, trainer) + Bytes(3, normalizer);
}

TEST(ChunkRule, EachConditionAlone) {
  const std::string space = Bytes(1, Bytes(1, "\u2581")), bpe = Flag(3, 2);
  EXPECT_EQ(RuleOf(Model(bpe, "", space)), ChunkRule::kDropSpace);
  EXPECT_EQ(RuleOf(Model(bpe, Flag(3, 0) + Flag(4, 0), space)), ChunkRule::kKeepSpace);
  EXPECT_EQ(RuleOf(Model(bpe, Flag(4, 0), space)), ChunkRule::kDropSpace);
  EXPECT_EQ(RuleOf(Model(bpe, "", space + Bytes(1, Bytes(1, "\u2581\u2581a")))), ChunkRule::kDropSpace);
  EXPECT_EQ(RuleOf(Model(bpe, Flag(3, 0), space)), ChunkRule::kWhole);        // its space would be stripped
  EXPECT_EQ(RuleOf(Model("", "", space)), ChunkRule::kWhole);                 // unigram
  EXPECT_EQ(RuleOf(Model(bpe + Flag(24, 1), "", space)), ChunkRule::kWhole);  // spaces go after words
  EXPECT_EQ(RuleOf(Model(bpe, Bytes(2, "map"), space)), ChunkRule::kWhole);   // maps characters
  EXPECT_EQ(RuleOf(Model(bpe, Flag(5, 0), space)), ChunkRule::kWhole);        // spaces stay spaces
  EXPECT_EQ(RuleOf(Model(bpe, "", "")), ChunkRule::kWhole);                   // a space is unknown
  EXPECT_EQ(RuleOf(Model(bpe, "", space + Bytes(1, Bytes(1, "a\u2581")))), ChunkRule::kWhole);
  EXPECT_EQ(RuleOf(Model(bpe, "", space + Bytes(1, Bytes(1, "a b")))), ChunkRule::kWhole);
}

TEST(ChunkRule, BytesThatAreNoModelAllowNoCut) {
  const std::string model = File("tests/data/text/llama.model");
  EXPECT_EQ(RuleOf(""), ChunkRule::kWhole);
  EXPECT_EQ(RuleOf("hello"), ChunkRule::kWhole);
  EXPECT_EQ(RuleOf(std::string(64, '\xff')), ChunkRule::kWhole);
  EXPECT_EQ(RuleOf(std::string_view(model).substr(0, model.size() - 1)), ChunkRule::kWhole);
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {  // reads nothing it should not: for the sanitizers
    std::string damaged = model.substr(0, random() % model.size());
    if (!damaged.empty()) damaged[random() % damaged.size()] = static_cast<char>(random());
    (void)RuleOf(damaged);
  }
}

TEST(ChunkRule, CutsBehindWhatIsNoSpace) {
  EXPECT_EQ(FindCut("ab cd ef", 0), 2u);
  EXPECT_EQ(FindCut("ab cd ef", 2), 2u);
  EXPECT_EQ(FindCut("ab cd ef", 3), 5u);
  EXPECT_EQ(FindCut("ab  cd ef", 3), 6u);       // not between spaces
  EXPECT_EQ(FindCut("ab\u2581 cd ef", 0), 8u);  // nor after what stands for one
  EXPECT_EQ(FindCut(" ab", 0), 3u);             // nor at the beginning
  EXPECT_EQ(FindCut("ab ", 0), 3u);             // nor before a space that is all there is
  EXPECT_EQ(FindCut("ab", 7), 2u);
  EXPECT_EQ(FindCut("", 0), 0u);
}

}  // namespace
}  // namespace tare::sentencepiece_tokenizer_test
