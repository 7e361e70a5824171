// SPDX-License-Identifier: Apache-2.0
// Names and rules of cutting; whole tokenizers are in vocabulary_test.cc and vocabulary_writer_test.cc.
#include "quant/interchange/gguf/cutting.h"

#include <gtest/gtest.h>

#include <set>

namespace tare {
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
  EXPECT_EQ(rules.size(), kCuttings.size() - 1);  // llama-bpe and llama3 are one
  EXPECT_EQ(CuttingsText(), "llama-bpe, llama3, qwen2, dbrx, gpt-2, olmo or smollm");
}

TEST(GgufCutting, OfGpt2IsByteLevelAlone) {
  const Cutting& gpt2 = kCuttings[4];
  ASSERT_EQ(gpt2.name, "gpt-2");
  EXPECT_TRUE(NormalizerOf(gpt2).is_null());
  EXPECT_EQ(PreTokenizerOf(gpt2)["type"], "ByteLevel");
  EXPECT_EQ(PreTokenizerOf(gpt2)["use_regex"], true);
}

}  // namespace
}  // namespace tare
