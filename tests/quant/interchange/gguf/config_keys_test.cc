// SPDX-License-Identifier: Apache-2.0
// Models whose logits are transformers' with yarn, longrope, linear and llama3 are in
// tests/experiments/gguf_parity_test.cc.
#include "quant/interchange/gguf/architecture.h"

#include <cmath>
#include <numbers>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/interchange/gguf/container.h"
#include "tests/support/call.h"
#include "tests/support/gguf_bytes.h"

namespace tare::gguf_config_keys_test {
namespace {

using namespace gguf;

using testing::HasSubstr;
using testing::ThrowsMessage;

// What a file of a family's architecture says.
Json RotaryOf(const GgufBytes& file, std::string_view family) {
  const Architecture& a = *ArchitectureOfFamily(family);
  const std::string bytes = file.Bytes();
  const Content content = Parse(std::as_bytes(std::span(bytes)), "f.gguf");
  ArchitectureKeys keys(content.metadata, a.name);
  Json config{{"head_dim", 4}};
  AddRotary(a, content.tensors, keys, config);
  keys.CheckAllUsed();
  config.erase("head_dim");
  return config;
}

void ExpectRefused(const GgufBytes& file, std::string_view family, const char* why) {
  EXPECT_THAT(Call([&] { RotaryOf(file, family); }), ThrowsMessage<Error>(HasSubstr(why)));
}

GgufBytes Yarn(const std::string& architecture) {
  return GgufBytes()
      .AddText(architecture + ".rope.scaling.type", "yarn")
      .AddReal(architecture + ".rope.scaling.factor", 4)
      .AddNumber(architecture + ".rope.scaling.original_context_length", 32);
}

TEST(GgufRotaryKeys, NothingSaidIsThePlainBase) {
  EXPECT_EQ(RotaryOf({}, "qwen2"), Json({{"rope_theta", 10000.0}}));
  EXPECT_EQ(RotaryOf(GgufBytes().AddReal("qwen2.rope.freq_base", 5e5f), "qwen2"), Json({{"rope_theta", 5e5}}));
}

TEST(GgufRotaryKeys, LinearIsAFactorThatIsNotOne) {
  EXPECT_EQ(RotaryOf(GgufBytes().AddReal("llama.rope.scaling.factor", 2), "llama")["rope_scaling"],
            Json({{"rope_type", "linear"}, {"factor", 2.0}}));
  EXPECT_FALSE(RotaryOf(GgufBytes().AddReal("llama.rope.scaling.factor", 1), "llama").contains("rope_scaling"));
}

TEST(GgufRotaryKeys, YarnIsTransformers) {
  EXPECT_EQ(
      RotaryOf(Yarn("llama"), "llama")["rope_scaling"],
      Json({{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32}, {"truncate", true}}));
  const Json all = RotaryOf(Yarn("qwen3")
                                .AddReal("qwen3.rope.scaling.yarn_beta_fast", 16)
                                .AddReal("qwen3.rope.scaling.yarn_beta_slow", 2)
                                .AddReal("qwen3.rope.scaling.yarn_attn_factor", 1.25f)
                                .AddReal("qwen3.rope.scaling.yarn_ext_factor", 1)
                                .AddFlag("qwen3.rope.scaling.yarn_truncate", false),
                            "qwen3")["rope_scaling"];
  EXPECT_EQ(all["beta_fast"], 16);
  EXPECT_EQ(all["beta_slow"], 2);
  EXPECT_EQ(all["attention_factor"], 1.25);
  EXPECT_EQ(all["truncate"], false);
  const Json more = RotaryOf(Yarn("llama").AddReal("llama.rope.scaling.attn_factor", 0.5f), "llama");
  EXPECT_DOUBLE_EQ(more["rope_scaling"]["attention_factor"].get<double>(), 0.5 * (0.1 * std::log(4) + 1));
  EXPECT_EQ(RotaryOf(Yarn("gpt-oss"), "gpt_oss")["rope_scaling"]["truncate"], false);  // its files say nothing
}

// Whose family in transformers means YaRN where nothing is said.
TEST(GgufRotaryKeys, NothingSaidIsSaidOfGptOss) {
  EXPECT_EQ(RotaryOf({}, "gpt_oss")["rope_scaling"], Json({{"rope_type", "default"}}));
}

TEST(GgufRotaryKeys, LongRopeIsTwoListsInPhi3) {
  const GgufBytes file = GgufBytes()
                             .AddText("phi3.rope.scaling.type", "longrope")
                             .AddNumber("phi3.rope.scaling.original_context_length", 16)
                             .AddReal("phi3.rope.scaling.attn_factor", 1.1f)
                             .AddFloats("rope_factors_short.weight", {2}, std::vector<float>{1, 1.1f})
                             .AddFloats("rope_factors_long.weight", {2}, std::vector<float>{2, 4.5f});
  const Json config = RotaryOf(file, "phi3");
  EXPECT_EQ(config["original_max_position_embeddings"], 16);
  EXPECT_EQ(config["rope_scaling"], Json({{"rope_type", "longrope"},
                                          {"short_factor", {1.0, 1.1}},
                                          {"long_factor", {2.0, 4.5}},
                                          {"attention_factor", 1.1}}));
  const GgufBytes plain = GgufBytes()
                              .AddNumber("phi3.rope.scaling.original_context_length", 16)
                              .AddFloats("rope_factors_short.weight", {2}, std::vector<float>{1, 1.1f})
                              .AddFloats("rope_factors_long.weight", {2}, std::vector<float>{2, 4.5f});
  EXPECT_EQ(RotaryOf(plain, "phi3")["rope_scaling"]["attention_factor"], 1);
  EXPECT_TRUE(IsRotary(*ArchitectureOfFamily("phi3"), "rope_factors_long.weight"));
  EXPECT_FALSE(IsRotary(*ArchitectureOfFamily("llama"), "rope_factors_long.weight"));
  EXPECT_TRUE(IsRotary(*ArchitectureOfFamily("llama"), "rope_freqs.weight"));
}

TEST(GgufRotaryKeys, WhatIsNotKnownIsRefused) {
  ExpectRefused(GgufBytes().AddText("llama.rope.scaling.type", "longrope"), "llama",
                "llama.rope.scaling.type: got 'longrope', expected none, linear or yarn (");
  ExpectRefused(GgufBytes().AddText("llama.rope.scaling.type", "yarn"), "llama",
                "llama.rope.scaling.original_context_length: got nothing");
  ExpectRefused(Yarn("llama").AddReal("llama.rope.scaling.yarn_ext_factor", 0.5f), "llama",
                "yarn_ext_factor: got 0.5, expected 1 (");
  ExpectRefused(Yarn("llama").AddReal("llama.rope.scaling.yarn_log_multiplier", 1), "llama",
                "yarn_log_multiplier: got 1, expected 0 (");
  ExpectRefused(GgufBytes().AddReal("llama.rope.scaling.yarn_beta_fast", 8), "llama",
                "yarn_beta_fast: is not supported");
  ExpectRefused(Yarn("llama").AddFloats("rope_freqs.weight", {2}, std::vector<float>{1, 8}), "llama",
                "got rotary scaling by this and by llama.rope.scaling.factor");
  ExpectRefused(GgufBytes().AddFloats("rope_factors_long.weight", {2}, std::vector<float>{1, 8}), "phi3",
                "tensor 'rope_factors_long.weight': got one of longrope's two lists");
  const auto lists = [](std::vector<float> by_long) {
    return GgufBytes()
        .AddNumber("phi3.rope.scaling.original_context_length", 16)
        .AddFloats("rope_factors_long.weight", {by_long.size()}, by_long)
        .AddFloats("rope_factors_short.weight", {2}, std::vector<float>{1, 8});
  };
  ExpectRefused(lists({1, 8, 9}), "phi3",
                "'rope_factors_long.weight': got F32 of shape [3], expected F32 of shape [2]");
  ExpectRefused(lists({1, NAN}), "phi3", "'rope_factors_long.weight': got values that are not positive numbers");
  ExpectRefused(GgufBytes()
                    .AddFloats("rope_factors_long.weight", {2}, std::vector<float>{1, 8})
                    .AddFloats("rope_factors_short.weight", {2}, std::vector<float>{1, 8}),
                "phi3", "phi3.rope.scaling.original_context_length: got nothing");
  ExpectRefused(Yarn("gemma3").AddReal("gemma3.rope.scaling.attn_factor", 2), "gemma3_text",
                "attn_factor: is not supp");
}

// As transformers computes them.
std::vector<float> Divisors(const RotaryFactors& r, double theta, int count) {
  std::vector<float> divisors;
  for (int i = 0; i < count; ++i) {
    const double wave = 2 * std::numbers::pi * std::pow(theta, static_cast<double>(i) / count);
    const double s = (r.original / wave - r.low) / (r.high - r.low);
    divisors.push_back(static_cast<float>(wave < r.original / r.high  ? 1
                                          : wave > r.original / r.low ? r.factor
                                                                      : 1 / ((1 - s) / r.factor + s)));
  }
  return divisors;
}

TEST(GgufRotaryFactors, OfLlama3AreExact) {
  const auto found = FindRotaryFactors(Divisors({.factor = 32}, 5e5, 32), 5e5);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->factor, 32);
  EXPECT_EQ(found->original, 8192);
  EXPECT_EQ(found->high, 4);
}

TEST(GgufRotaryFactors, OfOthersAreFoundFromTheDivisors) {
  const auto found = FindRotaryFactors(Divisors({.factor = 8, .high = 8, .original = 4096}, 5e5, 64), 5e5);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->factor, 8);
  EXPECT_EQ(found->original, 4096);
  EXPECT_EQ(found->high, 8);
}

TEST(GgufRotaryFactors, OfFewFrequenciesComputeTheSame) {
  const RotaryFactors made{.factor = 8, .original = 32};
  const std::vector<float> divisors = Divisors(made, 5e5, 8);  // 1, then 8: none between
  const auto found = FindRotaryFactors(divisors, 5e5);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(Divisors(*found, 5e5, 8), divisors);
}

TEST(GgufRotaryFactors, OtherDivisorsAreNone) {
  std::vector<float> divisors = Divisors({.factor = 32}, 5e5, 32);
  divisors[20] *= 1.01f;
  EXPECT_FALSE(FindRotaryFactors(divisors, 5e5));
  divisors[20] = NAN;
  EXPECT_FALSE(FindRotaryFactors(divisors, 5e5));
  EXPECT_FALSE(FindRotaryFactors({}, 5e5));
  EXPECT_FALSE(FindRotaryFactors(std::vector<float>(8, 1.0f), 5e5));
}

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

void ExpectFamilyRefused(const GgufBytes& file, std::string_view family, const char* why) {
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
  ExpectFamilyRefused(
      GgufBytes().AddNumber("olmo2.attention.sliding_window", 6).AddNumber("olmo2.attention.sliding_window_pattern", 3),
      "olmo3", "sliding_window_pattern: got 3, expected 4");
}

TEST(GgufFamilyKeys, GranitesMultipliers) {
  EXPECT_EQ(FamilyKeysOf({}, "granite")["attention_multiplier"], 0.5);  // 1 / sqrt of the head's width
  EXPECT_EQ(FamilyKeysOf(GgufBytes().AddReal("granite.logit_scale", 0), "granite")["logits_scaling"], 1);
  ExpectFamilyRefused(GgufBytes().AddFlag("granite.rope.scaling.finetuned", false), "granite", "finetuned: got false");
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
  ExpectFamilyRefused(GgufBytes().AddNumber("gpt-oss.attention.sliding_window", 8), "gpt_oss",
                      "gpt-oss.expert_count: got not");
  ExpectFamilyRefused(Experts("gpt-oss"), "gpt_oss", "gpt-oss.attention.sliding_window: got nothing");
  ExpectFamilyRefused(Experts("llama").AddNumber("llama.expert_gating_func", 2), "mixtral",
                      "expert_gating_func: got 2, exp");
  ExpectFamilyRefused(Experts("llama").AddNumber("llama.expert_shared_count", 1), "mixtral",
                      "expert_shared_count: got 1");
  ExpectFamilyRefused(Experts("llama").AddReal("llama.expert_weights_scale", 2), "mixtral",
                      "expert_weights_scale: is not");
  ExpectFamilyRefused(GgufBytes().AddNumber("llama.expert_count", 16385), "mixtral",
                      "expert_count: got 16385, expected at");
  ExpectFamilyRefused(GgufBytes().AddNumber("qwen2.expert_count", 4), "qwen2", "qwen2.expert_count: got 4, expected 0");
}

TEST(GgufFamilyKeys, Phi3sWindowMayBeNone) {
  EXPECT_EQ(FamilyKeysOf(GgufBytes().AddNumber("phi3.attention.sliding_window", 9), "phi3")["sliding_window"], 9);
  EXPECT_FALSE(
      FamilyKeysOf(GgufBytes().AddNumber("phi3.attention.sliding_window", 0), "phi3").contains("sliding_window"));
}

}  // namespace
}  // namespace tare::gguf_config_keys_test
