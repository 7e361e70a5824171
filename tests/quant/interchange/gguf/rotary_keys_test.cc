// SPDX-License-Identifier: Apache-2.0
// Models whose logits are transformers' with yarn, longrope, linear and llama3 are in
// tests/experiments/gguf_parity_test.cc.
#include "quant/interchange/gguf/rotary_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/gguf_bytes.h"

namespace tare::rotary_keys_test {
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

}  // namespace
}  // namespace tare::rotary_keys_test
