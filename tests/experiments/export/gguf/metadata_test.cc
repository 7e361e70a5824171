// SPDX-License-Identifier: Apache-2.0
// The configuration of every golden model that a GGUF file can hold is read back from the keys that it becomes. Whole
// files are in gguf_export_test.cc.
#include "experiments/export/gguf/metadata.h"

#include <gtest/gtest.h>

#include "experiments/export/gguf/export.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::gguf_metadata_test {
namespace {

TEST(GgufMetadata, ConfigurationsAreReadBack) {
  const TemporaryFolder folder;
  for (const char* name : {"llama", "llama-linear", "llama-yarn", "mixtral", "qwen2", "qwen3", "qwen3moe", "olmo2",
                           "olmo3", "gemma3", "smollm3", "granite", "phi3", "gpt-oss"}) {
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
    EXPECT_EQ(a.rotary.share, b.rotary.share) << name;
    EXPECT_EQ(a.rotary.truncate, b.rotary.truncate) << name;
    EXPECT_EQ(a.rotary.fast_rotations, b.rotary.fast_rotations) << name;
    EXPECT_EQ(a.rotary.slow_rotations, b.rotary.slow_rotations) << name;
    EXPECT_EQ(a.rotary.attention_factor, b.rotary.attention_factor) << name;
    EXPECT_EQ(a.rotary.short_divisors, b.rotary.short_divisors) << name;
    EXPECT_EQ(a.rotary.long_divisors, b.rotary.long_divisors) << name;
    EXPECT_EQ(a.windows, b.windows) << name;
    EXPECT_EQ(a.unrotated, b.unrotated) << name;
    EXPECT_EQ(a.experts, b.experts) << name;
    EXPECT_EQ(a.chosen_experts, b.chosen_experts) << name;
    EXPECT_EQ(a.ffn, b.ffn) << name;
    EXPECT_EQ(a.embedding_scale, b.embedding_scale) << name;
    EXPECT_EQ(a.residual_scale, b.residual_scale) << name;
    EXPECT_EQ(a.logit_divisor, b.logit_divisor) << name;
    EXPECT_EQ(a.attention_scale, b.attention_scale) << name;
    EXPECT_EQ(a.logit_cap, b.logit_cap) << name;
    EXPECT_EQ(a.window_rotary.has_value(), b.window_rotary.has_value()) << name;
    if (!a.window_rotary) continue;
    EXPECT_EQ(a.window_rotary->theta, b.window_rotary->theta) << name;
  }
}

}  // namespace
}  // namespace tare::gguf_metadata_test
