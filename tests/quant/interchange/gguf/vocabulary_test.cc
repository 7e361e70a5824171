// SPDX-License-Identifier: Apache-2.0
// The files' forms; that ids are those of the source's tokenizer is in
// tests/experiments/gguf_tokenizer_test.cc.
#include "quant/interchange/gguf/vocabulary.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/json.h"
#include "quant/interchange/gguf/container.h"
#include "tests/support/call.h"
#include "tests/support/gguf_bytes.h"

namespace tare::vocabulary_test {
namespace {

using namespace gguf;

using testing::HasSubstr;
using testing::ThrowsMessage;

std::optional<std::string> TextOf(const GgufBytes& file, const std::string& name) {
  const std::string bytes = file.Bytes();
  return TokenizerText(Parse(std::as_bytes(std::span(bytes)), "f.gguf").metadata, name);
}

GgufBytes BytePairs(const std::string& pre = "qwen2") {
  GgufBytes file;
  file.AddText("tokenizer.ggml.model", "gpt2").AddText("tokenizer.ggml.pre", pre);
  file.AddTexts("tokenizer.ggml.tokens", {"a", "b", "ab", "<|end|>", "[PAD4]"});
  file.Add("tokenizer.ggml.token_type", 9, GgufBytes::Numbers<int32_t>(5, {1, 1, 1, 3, 5}));
  file.AddTexts("tokenizer.ggml.merges", {"a b"}).AddNumber("tokenizer.ggml.eos_token_id", 3);
  return file;
}

TEST(GgufVocabulary, BytePairsBecomeTokenizerJson) {
  const auto json = ParseJson(*TextOf(BytePairs(), "tokenizer.json"), "tokenizer.json");
  EXPECT_EQ(json["model"]["vocab"], (nlohmann::json{{"a", 0}, {"b", 1}, {"ab", 2}}));
  EXPECT_EQ(json["model"]["merges"], nlohmann::json({"a b"}));
  EXPECT_EQ(json["added_tokens"][0]["content"], "<|end|>");
  EXPECT_EQ(json["added_tokens"][0]["special"], true);
  EXPECT_EQ(json["normalizer"]["type"], "NFC");
  EXPECT_EQ(TextOf(BytePairs(), "tokenizer.model"), std::nullopt);
  EXPECT_EQ(TextOf(BytePairs(), "vocab.json"), std::nullopt);
}

TEST(GgufVocabulary, SpecialTokensSurroundTextsWhereTheFileSaysSo) {
  GgufBytes file = BytePairs("gpt-2");
  file.AddFlag("tokenizer.ggml.add_eos_token", true);
  const auto json = ParseJson(*TextOf(file, "tokenizer.json"), "tokenizer.json");
  EXPECT_EQ(json["post_processor"]["single"][1]["SpecialToken"]["id"], "<|end|>");
  GgufBytes begins = BytePairs("llama-bpe");  // begins texts unless told otherwise
  EXPECT_THAT(Call([&] { TextOf(begins, "tokenizer.json"); }),
              ThrowsMessage<Error>(HasSubstr("tokenizer.ggml.bos_token_id: got no id of a token")));
  begins.AddNumber("tokenizer.ggml.bos_token_id", 3);
  EXPECT_EQ(ParseJson(*TextOf(begins, "tokenizer_config.json"), "c")["add_bos_token"], true);
}

TEST(GgufVocabulary, WhatIsNotKnownIsRefusedByName) {
  const auto refused = [](const GgufBytes& file, const std::string& name, const char* why) {
    EXPECT_THAT(Call([&] { TextOf(file, name); }), ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused(BytePairs("default"), "tokenizer.json", "tokenizer.ggml.pre: got 'default', expected llama-bpe, ");
  refused(GgufBytes().AddText("tokenizer.ggml.model", "t5"), "tokenizer.model", "got 't5', expected llama or gpt2");
  GgufBytes pieces;
  pieces.AddText("tokenizer.ggml.model", "llama");
  refused(pieces, "tokenizer.model", "tokenizer.ggml.tokens: got none");
  pieces.AddTexts("tokenizer.ggml.tokens", {"a", "b"});
  GgufBytes twice = pieces, few = pieces, kind = pieces, ends = pieces;
  refused(few.Add("tokenizer.ggml.scores", 9, GgufBytes::Numbers<float>(6, {1})), "tokenizer.model",
          "tokenizer.ggml.scores: got 1 numbers, expected one for each of 2 tokens");
  refused(kind.Add("tokenizer.ggml.token_type", 9, GgufBytes::Numbers<int32_t>(5, {1, 7})), "tokenizer.model",
          "tokenizer.ggml.token_type: got 7 for token 1, expected 1 to 6");
  refused(ends.AddFlag("tokenizer.ggml.add_eos_token", true), "tokenizer.model", "add_eos_token: got true");
  GgufBytes equal;
  equal.AddText("tokenizer.ggml.model", "llama").AddTexts("tokenizer.ggml.tokens", {"a", "a"});
  refused(equal, "tokenizer.model", "got 'a' twice");
  GgufBytes broken;
  broken.AddText("tokenizer.ggml.model", "gpt2").AddText("tokenizer.ggml.pre", "gpt-2");
  broken.AddTexts("tokenizer.ggml.tokens", {"\xff"}).AddTexts("tokenizer.ggml.merges", {});
  refused(broken, "tokenizer.json", "tokenizer.ggml.tokens: got bytes that are not UTF-8");
}

TEST(GgufVocabulary, MayBeMissing) {
  EXPECT_EQ(TextOf(GgufBytes(), "tokenizer.json"), std::nullopt);
  EXPECT_EQ(TextOf(GgufBytes().AddText("tokenizer.ggml.model", "none"), "tokenizer_config.json"), std::nullopt);
}

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
}  // namespace tare::vocabulary_test
