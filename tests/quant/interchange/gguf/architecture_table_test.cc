// SPDX-License-Identifier: Apache-2.0
// Names go both ways: every tensor of the golden files, and of each architecture no other.
#include "quant/interchange/gguf/architecture_table.h"

#include <gtest/gtest.h>

#include "quant/file/mapped_file.h"
#include "quant/interchange/gguf/container.h"

namespace tare {
namespace {

using namespace gguf;

TEST(GgufArchitectureTable, NamesGoBothWays) {
  for (const char* name : {"llama", "qwen2", "qwen3", "olmo2", "gemma3"}) {
    const Architecture& a = *FindArchitecture(name);
    EXPECT_EQ(ArchitectureOfFamily(a.family), &a);
    const MappedFile file(std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf" / (std::string(name) + ".gguf"));
    for (const Tensor& tensor : Parse(file.bytes(), name).tensors) {
      if (tensor.name == "rope_freqs.weight") continue;
      const std::string ours = CheckpointName(a, tensor.name);
      EXPECT_NE(ours, "") << tensor.name;
      EXPECT_EQ(FileName(a, ours), tensor.name) << name;
    }
  }
  EXPECT_EQ(FindArchitecture("gpt2"), nullptr);
  EXPECT_EQ(ArchitectureOfFamily("diffllama"), nullptr);
}

TEST(GgufArchitectureTable, NamesThatAnArchitectureLacksAreEmpty) {
  const Architecture& llama = *FindArchitecture("llama");
  for (const char* name : {"model.layers.0.self_attn.q_norm.weight", "model.layers.00.mlp.up_proj.weight",
                           "model.layers.0.mlp.up_proj.scale", "model.layers.0.mlp.up_proj", "lm_head.bias", ""})
    EXPECT_EQ(FileName(llama, name), "") << name;
  EXPECT_EQ(FileName(*FindArchitecture("qwen3"), "model.layers.3.self_attn.q_norm.weight"), "blk.3.attn_q_norm.weight");
  EXPECT_EQ(FileName(*FindArchitecture("olmo2"), "model.layers.0.input_layernorm.weight"), "");
}

// Two heads of width 6: row 3 h + j of a half is row 2 j + h of the file.
TEST(GgufArchitectureTable, RowsOfNeighbours) {
  const int64_t expected[]{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};
  for (int64_t row = 0; row < 12; ++row) EXPECT_EQ(RowOfNeighbours(row, 6), expected[row]);
}

}  // namespace
}  // namespace tare
