// SPDX-License-Identifier: Apache-2.0
// Names and rules of cutting; whole tokenizers are in vocabulary_test.cc and vocabulary_writer_test.cc.
#include "quant/interchange/gguf/cutting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tare::cutting_test {
namespace {

using namespace gguf;

TEST(GgufCutting, NamesAndRulesTellThemApart) {
  std::set<std::string_view> names;
  std::set<std::string> rules;
  for (const Cutting& cutting : kCuttings) {
    names.insert(cutting.name);
    rules.insert(NormalizerOf(cutting).dump() + PreTokenizerOf(cutting).dump() +
                 (cutting.takes_whole_words ? "whole" : ""));
  }
  EXPECT_EQ(names.size(), kCuttings.size());
  EXPECT_EQ(rules.size(), 8u);  // the other names are of the same rules
  EXPECT_THAT(CuttingsText(), testing::StartsWith("llama-bpe, llama3, "));
  EXPECT_THAT(CuttingsText(), testing::EndsWith(" or starcoder"));
}

TEST(GgufCutting, OfGpt2IsByteLevelAlone) {
  const Cutting& gpt2 = *std::ranges::find(kCuttings, "gpt-2", &Cutting::name);
  EXPECT_TRUE(NormalizerOf(gpt2).is_null());
  EXPECT_EQ(PreTokenizerOf(gpt2)["type"], "ByteLevel");
  EXPECT_EQ(PreTokenizerOf(gpt2)["use_regex"], true);
}

}  // namespace
}  // namespace tare::cutting_test
