// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/family_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "quant/interchange/gguf/container.h"
#include "tests/support/call.h"
#include "tests/support/gguf_bytes.h"

namespace tare::family_keys_test {
namespace {

using namespace gguf;

using testing::HasSubstr;
using testing::ThrowsMessage;

// Beside what all families share: one layer, 2 heads of 4, hidden 8, an inner width of 16.
Json FamilyKeysOf(const GgufBytes& file, std::string_view family) {
  const Architecture& a = *ArchitectureOfFamily(family);
  const std::string bytes = file.Bytes();
  const Content content = Parse(std::as_bytes(std::span(bytes)), "f.gguf");
  ArchitectureKeys keys(content.metadata, a.name);
  Json config{{"num_hidden_layers", 1},
              {"hidden_size", 8},
              {"num_attention_heads", 2},
              {"head_dim", 4},
              {"intermediate_size", 16}};
  AddFamilyKeys(a, keys, config);
  keys.CheckAllUsed();
  return config;
}

void ExpectRefused(const GgufBytes& file, std::string_view family, const char* why) {
  EXPECT_THAT(Call([&] { FamilyKeysOf(file, family); }), ThrowsMessage<Error>(HasSubstr(why)));
}

GgufBytes Experts(const std::string& architecture) {
  return GgufBytes()
      .AddNumber(architecture + ".expert_count", 4)
      .AddNumber(architecture + ".expert_used_count", 2)
      .AddNumber(architecture + ".expert_feed_forward_length", 24);
}

TEST(GgufFamilyKeys, GemmasLayersOfWindowsComeInPeriods) {
  const Json config = FamilyKeysOf(GgufBytes().AddNumber("gemma3.attention.sliding_window", 6), "gemma3_text");
  EXPECT_EQ(config["sliding_window"], 6);
  EXPECT_EQ(config["sliding_window_pattern"], 6);
  EXPECT_EQ(config["query_pre_attn_scalar"], 4);
}

TEST(GgufFamilyKeys, LayersOfWindowsMayBeListed) {
  const auto listed = [](const std::string& architecture) {
    return GgufBytes()
        .AddNumber(architecture + ".attention.sliding_window", 6)
        .Add(architecture + ".attention.sliding_window_pattern", 9, GgufBytes::Numbers<uint8_t>(7, {0}));
  };
  EXPECT_EQ(FamilyKeysOf(listed("gemma3"), "gemma3_text")["layer_types"], Json({"full_attention"}));
  EXPECT_EQ(FamilyKeysOf(listed("olmo2"), "olmo3")["layer_types"], Json({"full_attention"}));
  ExpectRefused(
      GgufBytes().AddNumber("olmo2.attention.sliding_window", 6).AddNumber("olmo2.attention.sliding_window_pattern", 3),
      "olmo3", "sliding_window_pattern: got 3, expected 4");
}

TEST(GgufFamilyKeys, GranitesMultipliers) {
  EXPECT_EQ(FamilyKeysOf({}, "granite")["attention_multiplier"], 0.5);  // 1 / sqrt of the head's width
  EXPECT_EQ(FamilyKeysOf(GgufBytes().AddReal("granite.logit_scale", 0), "granite")["logits_scaling"], 1);
  ExpectRefused(GgufBytes().AddFlag("granite.rope.scaling.finetuned", false), "granite", "finetuned: got false");
  const Json config = FamilyKeysOf(GgufBytes()
                                       .AddReal("granite.attention.scale", 0.25f)
                                       .AddReal("granite.embedding_scale", 12)
                                       .AddReal("granite.residual_scale", 0.22f)
                                       .AddReal("granite.logit_scale", 8),
                                   "granite");
  EXPECT_EQ(config["attention_multiplier"], 0.25);
  EXPECT_EQ(config["embedding_multiplier"], 12);
  EXPECT_EQ(config["residual_multiplier"], 0.22);
  EXPECT_EQ(config["logits_scaling"], 8);
}

TEST(GgufFamilyKeys, CountsAndWidthOfExperts) {
  const Json mixtral = FamilyKeysOf(Experts("llama"), "mixtral"), qwen = FamilyKeysOf(Experts("qwen3moe"), "qwen3_moe");
  EXPECT_EQ(mixtral["num_local_experts"], 4);
  EXPECT_EQ(mixtral["num_experts_per_tok"], 2);
  EXPECT_EQ(mixtral["intermediate_size"], 24);
  EXPECT_EQ(qwen["num_experts"], 4);
  EXPECT_EQ(qwen["moe_intermediate_size"], 24);
  EXPECT_EQ(qwen["norm_topk_prob"], true);
  const Json oss = FamilyKeysOf(Experts("gpt-oss").AddNumber("gpt-oss.attention.sliding_window", 128), "gpt_oss");
  EXPECT_EQ(oss["num_local_experts"], 4);
  EXPECT_EQ(oss["sliding_window"], 128);
  EXPECT_FALSE(oss.contains("layer_types"));  // every other layer, as in transformers
}

TEST(GgufFamilyKeys, OtherExpertsAreRefused) {
  ExpectRefused(GgufBytes().AddNumber("gpt-oss.attention.sliding_window", 8), "gpt_oss",
                "gpt-oss.expert_count: got not");
  ExpectRefused(Experts("gpt-oss"), "gpt_oss", "gpt-oss.attention.sliding_window: got nothing");
  ExpectRefused(Experts("llama").AddNumber("llama.expert_gating_func", 2), "mixtral", "expert_gating_func: got 2, exp");
  ExpectRefused(Experts("llama").AddNumber("llama.expert_shared_count", 1), "mixtral", "expert_shared_count: got 1");
  ExpectRefused(Experts("llama").AddReal("llama.expert_weights_scale", 2), "mixtral", "expert_weights_scale: is not");
  ExpectRefused(GgufBytes().AddNumber("llama.expert_count", 16385), "mixtral", "expert_count: got 16385, expected at");
  ExpectRefused(GgufBytes().AddNumber("qwen2.expert_count", 4), "qwen2", "qwen2.expert_count: got 4, expected 0");
}

TEST(GgufFamilyKeys, Phi3sWindowMayBeNone) {
  EXPECT_EQ(FamilyKeysOf(GgufBytes().AddNumber("phi3.attention.sliding_window", 9), "phi3")["sliding_window"], 9);
  EXPECT_FALSE(
      FamilyKeysOf(GgufBytes().AddNumber("phi3.attention.sliding_window", 0), "phi3").contains("sliding_window"));
}

}  // namespace
}  // namespace tare::family_keys_test
