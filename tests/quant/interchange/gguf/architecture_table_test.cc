// SPDX-License-Identifier: Apache-2.0
// Names go both ways: every tensor of the golden files, and of each architecture no other.
#include "quant/interchange/gguf/architecture_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "quant/file/mapped_file.h"
#include "quant/interchange/gguf/container.h"

namespace tare::architecture_table_test {
namespace {

using namespace gguf;

TEST(GgufArchitectureTable, NamesGoBothWays) {
  for (const auto& [name, family] : std::map<std::string, const char*>{{"llama", "llama"},
                                                                       {"mixtral", "mixtral"},
                                                                       {"qwen2", "qwen2"},
                                                                       {"qwen3", "qwen3"},
                                                                       {"qwen3moe", "qwen3_moe"},
                                                                       {"olmo2", "olmo2"},
                                                                       {"olmo3", "olmo3"},
                                                                       {"gemma3", "gemma3_text"},
                                                                       {"smollm3", "smollm3"},
                                                                       {"granite", "granite"},
                                                                       {"phi3", "phi3"},
                                                                       {"gpt-oss", "gpt_oss"}}) {
    const Architecture& a = *ArchitectureOfFamily(family);
    const MappedFile file(std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf" / (name + ".gguf"));
    for (const Tensor& tensor : Parse(file.bytes(), name).tensors) {
      if (tensor.name.starts_with("rope_")) continue;
      if (name == "gpt-oss" && tensor.name.contains(".ffn_up_exps.")) continue;  // gate's name, both ways
      const std::string ours = CheckpointName(a, tensor.name);
      EXPECT_NE(ours, "") << tensor.name;
      EXPECT_EQ(FileName(a, ours), tensor.name) << name;
    }
  }
  EXPECT_EQ(ArchitectureOfFamily("diffllama"), nullptr);
}

TEST(GgufArchitectureTable, NamesThatAnArchitectureLacksAreEmpty) {
  const Architecture& llama = *ArchitectureOfFamily("llama");
  for (const char* name : {"model.layers.0.self_attn.q_norm.weight", "model.layers.00.mlp.up_proj.weight",
                           "model.layers.0.mlp.up_proj.scale", "model.layers.0.mlp.up_proj", "lm_head.bias", ""})
    EXPECT_EQ(FileName(llama, name), "") << name;
  EXPECT_EQ(FileName(*ArchitectureOfFamily("qwen3"), "model.layers.3.self_attn.q_norm.weight"),
            "blk.3.attn_q_norm.weight");
  EXPECT_EQ(FileName(*ArchitectureOfFamily("olmo2"), "model.layers.0.input_layernorm.weight"), "");
  const Architecture& gpt_oss = *ArchitectureOfFamily("gpt_oss");
  EXPECT_EQ(FileName(gpt_oss, "model.layers.0.self_attn.sinks"), "blk.0.attn_sinks.weight");
  EXPECT_EQ(FileName(gpt_oss, "model.layers.0.self_attn.sinks.weight"), "");
  EXPECT_EQ(CheckpointName(gpt_oss, "blk.0.attn_sinks"), "");
  EXPECT_EQ(CheckpointName(gpt_oss, "blk.0.ffn_gate_exps.weight"), "model.layers.0.mlp.experts.{}.gate_up_proj.weight");
}

TEST(GgufArchitectureTable, ListsSayEachOnce) {
  EXPECT_EQ(ArchitecturesText(), "llama, qwen2, qwen3, qwen3moe, olmo2, gemma3, smollm3, granite, phi3 or gpt-oss");
  EXPECT_THAT(FamiliesText(), testing::EndsWith(" or gpt_oss"));
}

// A family that a key tells comes before the one of the same name without it.
TEST(GgufArchitectureTable, FamiliesWithAKeyComeFirst) {
  std::set<std::string_view> without;
  for (const Architecture& a : Architectures()) {
    EXPECT_FALSE(without.contains(a.name)) << a.family;
    if (a.only_with.empty()) without.insert(a.name);
  }
}

// Two heads of width 6: row 3 h + j of a half is row 2 j + h of the file.
TEST(GgufArchitectureTable, RowsOfNeighbours) {
  const int64_t expected[]{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};
  for (int64_t row = 0; row < 12; ++row) EXPECT_EQ(RowOfNeighbours(row, 6), expected[row]);
}

}  // namespace
}  // namespace tare::architecture_table_test
