// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/piece_model.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/quant/file/temporary_folder.h"

namespace tare {
namespace {

std::string Bytes(const std::string& path) { return GetFile(TARE_SOURCE_DIR "/" + path); }

TEST(PieceModel, EachRuleWhereItIsSafe) {
  EXPECT_EQ(FindChunkRule(Bytes("experiments/pair/novels-standard/tokenizer.model")), ChunkRule::kDropSpace);
  EXPECT_EQ(FindChunkRule(Bytes("tests/data/text/llama.model")), ChunkRule::kDropSpace);
  EXPECT_EQ(FindChunkRule(Bytes("tests/data/text/bare.model")), ChunkRule::kKeepSpace);
  for (const char* name : {"stripped", "phrases", "suffix", "mapped", "unigram"}) {
    EXPECT_EQ(FindChunkRule(Bytes(std::string("tests/data/text/") + name + ".model")), ChunkRule::kWhole) << name;
  }
}

TEST(PieceModel, BytesThatAreNoModelAllowNoCut) {
  const std::string model = Bytes("tests/data/text/llama.model");
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
  EXPECT_EQ(FindCut("ab\u2581 cd ef", 0), 8u);  // nor behind what stands for one
  EXPECT_EQ(FindCut(" ab", 0), 3u);             // nor at the beginning
  EXPECT_EQ(FindCut("ab ", 0), 3u);             // nor before a space that is all there is
  EXPECT_EQ(FindCut("ab", 7), 2u);
  EXPECT_EQ(FindCut("", 0), 0u);
}

}  // namespace
}  // namespace tare
