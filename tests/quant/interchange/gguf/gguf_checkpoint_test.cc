// SPDX-License-Identifier: Apache-2.0
// A GGUF file answers as a Checkpoint does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/gguf_bytes.h"

namespace tare::gguf_checkpoint_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::filesystem::path Golden(const std::string& name) {
  return std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf" / name;
}

// One layer, 2 heads of 32, hidden 64; q in Q8_0, each row a scale of 1 and its own number as codes.
GgufBytes WithQueries(uint16_t scale = 0x3c00) {
  GgufBytes file;
  file.AddText("general.architecture", "llama");
  for (const auto& [key, number] : std::map<std::string, uint32_t>{{"block_count", 1},
                                                                   {"context_length", 64},
                                                                   {"embedding_length", 64},
                                                                   {"feed_forward_length", 16},
                                                                   {"attention.head_count", 2}})
    file.AddNumber("llama." + key, number);
  file.AddFloats("token_embd.weight", {64, 3}, std::vector<float>(192));
  std::string bytes;
  for (char row = 0; row < 64; ++row) {
    for (int block = 0; block < 2; ++block) bytes += GgufBytes::Raw(scale) + std::string(32, row);
  }
  file.AddTensor("blk.0.attn_q.weight", {64, 64}, 8, bytes);
  return file;
}

TEST(GgufCheckpoint, HasMatricesTensorsAndSmallFiles) {
  const Checkpoint files(Golden("llama-q4_k_m.gguf"));
  EXPECT_EQ(files.Find("model.embed_tokens.weight"), nullptr);
  const ForeignMatrix* embedding = files.FindForeign("model.embed_tokens.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->scheme(), "GGUF Q6_K");
  EXPECT_EQ(embedding->bytes(), 64 * 210);
  ASSERT_NE(files.Find("model.norm.weight"), nullptr);
  EXPECT_TRUE(files.schemes().contains("GGUF Q4_K"));
  EXPECT_EQ(files.quantized(), nullptr);
  EXPECT_EQ(files.ContentHash(), Sha256OfFile(Golden("llama-q4_k_m.gguf")));
  EXPECT_NO_THROW(files.Release("model.norm.weight"));
  EXPECT_NO_THROW(embedding->Release());
  EXPECT_THROW(files.Release("none"), Error);
  EXPECT_THAT(*CheckpointText(Golden("llama-q4_k_m.gguf"), "config.json"), HasSubstr("\"llama\""));
  EXPECT_EQ(CheckpointText(Golden("llama-q4_k_m.gguf"), "merges.txt"), std::nullopt);
}

TEST(GgufCheckpoint, RowsOfQueriesComeInTheCheckpointsOrder) {
  const TemporaryFolder folder;
  PutFile(folder / "q.gguf", WithQueries().Bytes());
  const Checkpoint files(folder / "q.gguf");
  std::vector<float> row(64);
  files.FindForeign("model.layers.0.self_attn.q_proj.weight")->Row(33, row.data());  // head 1, channel 1
  EXPECT_EQ(row[0], 34);
  EXPECT_EQ(row[63], 34);
}

TEST(GgufCheckpoint, ScalesThatAreNotFiniteAreRefusedWhereTheyAreUsed) {
  const TemporaryFolder folder;
  PutFile(folder / "q.gguf", WithQueries(0x7c00).Bytes());
  const Checkpoint files(folder / "q.gguf");
  std::vector<float> row(64);
  EXPECT_THAT(Call([&] { files.FindForeign("model.layers.0.self_attn.q_proj.weight")->Row(1, row.data()); }),
              ThrowsMessage<Error>(HasSubstr("q.gguf: tensor 'blk.0.attn_q.weight', row 2: NaN or infinity")));
  EXPECT_THAT(Call([&] { IntegersOf(*files.FindForeign("model.layers.0.self_attn.q_proj.weight")); }),
              ThrowsMessage<Error>(testing::AllOf(HasSubstr("q.gguf: tensor 'blk.0.attn_q.weight', row "),
                                                  HasSubstr(": NaN or infinity"))));  // any, of several threads
}

TEST(GgufCheckpoint, IntegersAreTheRows) {
  const Checkpoint files(Golden("llama-q4_k_m.gguf"));
  for (const std::string& name : files.names()) {
    const ForeignMatrix* matrix = files.FindForeign(name);
    if (matrix == nullptr) continue;
    const QuantizedMatrixBuffer integers = IntegersOf(*matrix);
    std::vector<float> row(static_cast<size_t>(matrix->in())), expected(row);
    for (int64_t r = 0; r < matrix->out(); ++r) {
      DequantizeRow(integers.view(), r, row.data());
      matrix->Row(r, expected.data());
      ASSERT_EQ(row, expected) << name << " row " << r;
    }
  }
}

// Rows in another order are put in the checkpoint's as they are asked for, and the matrix is not copied.
TEST(GgufCheckpoint, FloatingPointInAnotherOrderIsAMatrix) {
  const Checkpoint files(Golden("llama.gguf")), oss(Golden("gpt-oss.gguf"));
  const ForeignMatrix* const q = files.FindForeign("model.layers.0.self_attn.q_proj.weight");
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(files.Find("model.layers.0.self_attn.q_proj.weight"), nullptr);
  EXPECT_FALSE(q->HasCodes());
  EXPECT_EQ(q->scheme(), "BF16");
  EXPECT_EQ(q->bytes(), 2 * q->out() * q->in());
  EXPECT_EQ(q->integers(), std::nullopt);
  EXPECT_NE(files.Find("model.layers.0.self_attn.v_proj.weight"), nullptr);
  const ForeignMatrix* const experts = oss.FindForeign("model.layers.1.mlp.experts.3.gate_up_proj.weight");
  ASSERT_NE(experts, nullptr);
  EXPECT_FALSE(experts->HasCodes());
  EXPECT_NO_THROW(experts->Release());
  EXPECT_NO_THROW(oss.Release("model.layers.1.mlp.experts.3.gate_up_proj.bias"));
  EXPECT_NO_THROW(oss.Release("model.layers.1.mlp.experts.3.down_proj.weight"));
}

TEST(GgufCheckpoint, MayHaveAnyName) {
  const TemporaryFolder folder;
  PutFile(folder / "model", WithQueries().Bytes());
  EXPECT_THAT(Checkpoint(folder / "model").names(),
              ElementsAre("model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight"));
  PutFile(folder / "no.gguf", "hello");
  EXPECT_THAT(Call([&] { Checkpoint files(folder / "no.gguf"); }), ThrowsMessage<Error>(HasSubstr("begin with GGUF")));
}

}  // namespace
}  // namespace tare::gguf_checkpoint_test
