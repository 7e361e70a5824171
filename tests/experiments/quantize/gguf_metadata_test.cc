// SPDX-License-Identifier: Apache-2.0
// The configuration of every golden model that a GGUF file can hold is read back from the keys that it becomes. Whole
// files are in gguf_export_test.cc.
#include "experiments/quantize/gguf_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/quantize/gguf_export.h"
#include "quant/base/error.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(GgufMetadata, ConfigurationsAreReadBack) {
  const TemporaryFolder folder;
  for (const char* name : {"llama", "llama-linear", "qwen2", "qwen3", "olmo2", "gemma3"}) {
    const std::filesystem::path theirs =
        std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf" / (std::string(name) + ".gguf");
    ConvertToGguf(theirs, "F32", "1", folder / "m.gguf");
    const ModelConfig a = LoadConfig(theirs), b = LoadConfig(folder / "m.gguf");
    EXPECT_EQ(a.family, b.family);
    EXPECT_EQ(a.head_dim, b.head_dim) << name;
    EXPECT_EQ(a.norm_eps, b.norm_eps) << name;
    EXPECT_EQ(a.max_positions, b.max_positions) << name;
    EXPECT_EQ(a.tied_embeddings, b.tied_embeddings) << name;
    EXPECT_EQ(a.attention_bias, b.attention_bias) << name;
    EXPECT_EQ(a.mlp_bias, b.mlp_bias) << name;
    EXPECT_EQ(a.rotary.type, b.rotary.type) << name;
    EXPECT_EQ(a.rotary.theta, b.rotary.theta) << name;
    EXPECT_EQ(a.rotary.factor, b.rotary.factor) << name;
    EXPECT_EQ(a.rotary.original_positions, b.rotary.original_positions) << name;
    EXPECT_EQ(a.windows, b.windows) << name;
    EXPECT_EQ(a.attention_scale, b.attention_scale) << name;
    EXPECT_EQ(a.logit_cap, b.logit_cap) << name;
    EXPECT_EQ(a.window_rotary.has_value(), b.window_rotary.has_value()) << name;
    if (!a.window_rotary) continue;
    EXPECT_EQ(a.window_rotary->theta, b.window_rotary->theta) << name;
  }
}

TEST(GgufMetadata, WhatLlamaCppComputesOtherwiseIsRefused) {
  const auto refuses = [](const char* golden, const std::function<void(ModelConfig&)>& change, const char* why) {
    ModelConfig config = LoadConfig(GoldenFolder(golden));
    change(config);
    EXPECT_THAT(Call([&] { GgufArchitectureOf(config, "m"); }), ThrowsMessage<Error>(HasSubstr(why)));
  };
  refuses(
      "llama-gqa", [](ModelConfig& c) { c.rotary.layout = RotaryConfig::Layout::kInterleaved; },
      "m: to gguf: got rotary positions of neighbouring channels, expected those of halves");
  refuses("llama-gqa", [](ModelConfig& c) { c.attention_scale = 3.0f; }, "got another scale of attention logits");
  refuses("qwen2", [](ModelConfig& c) { c.windows = {0, 7}; }, "got layers that see a window of keys");
  refuses("motif", [](ModelConfig&) {}, "got a motif model, expected one of llama.cpp's architectures");
  ModelConfig mistral = LoadConfig(GoldenFolder("mistral"));
  mistral.windows.clear();
  EXPECT_EQ(GgufArchitectureOf(mistral, "m").name, "llama");
}

}  // namespace
}  // namespace tare
