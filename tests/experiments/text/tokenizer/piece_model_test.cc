// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/piece_model.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/quant/file/temporary_folder.h"

namespace tare::piece_model_test {
namespace {

std::string File(const std::string& path) { return GetFile(TARE_SOURCE_DIR "/" + path); }

TEST(PieceModel, EachRuleWhereItIsSafe) {
  EXPECT_EQ(FindChunkRule(File("experiments/pair/novels-standard/tokenizer.model")), ChunkRule::kDropSpace);
  EXPECT_EQ(FindChunkRule(File("tests/data/text/llama.model")), ChunkRule::kDropSpace);
  EXPECT_EQ(FindChunkRule(File("tests/data/text/bare.model")), ChunkRule::kKeepSpace);
  for (const char* name : {"stripped", "phrases", "suffix", "mapped", "unigram"}) {
    EXPECT_EQ(FindChunkRule(File(std::string("tests/data/text/") + name + ".model")), ChunkRule::kWhole) << name;
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

TEST(PieceModel, EachConditionAlone) {
  const std::string space = Bytes(1, Bytes(1, "\u2581")), bpe = Flag(3, 2);
  EXPECT_EQ(FindChunkRule(Model(bpe, "", space)), ChunkRule::kDropSpace);
  EXPECT_EQ(FindChunkRule(Model(bpe, Flag(3, 0) + Flag(4, 0), space)), ChunkRule::kKeepSpace);
  EXPECT_EQ(FindChunkRule(Model(bpe, Flag(4, 0), space)), ChunkRule::kDropSpace);
  EXPECT_EQ(FindChunkRule(Model(bpe, "", space + Bytes(1, Bytes(1, "\u2581\u2581a")))), ChunkRule::kDropSpace);
  EXPECT_EQ(FindChunkRule(Model(bpe, Flag(3, 0), space)), ChunkRule::kWhole);        // its space would be stripped
  EXPECT_EQ(FindChunkRule(Model("", "", space)), ChunkRule::kWhole);                 // unigram
  EXPECT_EQ(FindChunkRule(Model(bpe + Flag(24, 1), "", space)), ChunkRule::kWhole);  // spaces go after words
  EXPECT_EQ(FindChunkRule(Model(bpe, Bytes(2, "map"), space)), ChunkRule::kWhole);   // maps characters
  EXPECT_EQ(FindChunkRule(Model(bpe, Flag(5, 0), space)), ChunkRule::kWhole);        // spaces stay spaces
  EXPECT_EQ(FindChunkRule(Model(bpe, "", "")), ChunkRule::kWhole);                   // a space is unknown
  EXPECT_EQ(FindChunkRule(Model(bpe, "", space + Bytes(1, Bytes(1, "a\u2581")))), ChunkRule::kWhole);
  EXPECT_EQ(FindChunkRule(Model(bpe, "", space + Bytes(1, Bytes(1, "a b")))), ChunkRule::kWhole);
}

TEST(PieceModel, BytesThatAreNoModelAllowNoCut) {
  const std::string model = File("tests/data/text/llama.model");
  EXPECT_EQ(FindChunkRule(""), ChunkRule::kWhole);
  EXPECT_EQ(FindChunkRule("hello"), ChunkRule::kWhole);
  EXPECT_EQ(FindChunkRule(std::string(64, '\xff')), ChunkRule::kWhole);
  EXPECT_EQ(FindChunkRule(std::string_view(model).substr(0, model.size() - 1)), ChunkRule::kWhole);
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {  // reads nothing it should not: for the sanitizers
    std::string damaged = model.substr(0, random() % model.size());
    if (!damaged.empty()) damaged[random() % damaged.size()] = static_cast<char>(random());
    FindChunkRule(damaged);
  }
}

TEST(PieceModel, CutsBehindWhatIsNoSpace) {
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
}  // namespace tare::piece_model_test
