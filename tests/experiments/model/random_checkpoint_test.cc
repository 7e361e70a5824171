// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/random_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/model/model.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"

namespace tare::random_checkpoint_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

ModelConfig Small(const std::string& family) {
  return {.family = family,
          .vocabulary = 300,
          .hidden = 64,
          .ffn = 96,
          .layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 24,
          .norm_eps = 1e-5f,
          .max_positions = 50};
}

// What the configuration does not say, families fill in as transformers does: biases, norms, windows, gates.
TEST(RandomCheckpointTest, BelongsToItsFamily) {
  for (const char* family : {"qwen2", "qwen3", "mistral", "olmo2", "gemma3_text"}) {
    for (const OutputGate gate : {OutputGate::kNone, OutputGate::kPerHead, OutputGate::kPerValue}) {
      if (gate != OutputGate::kNone && family != std::string("qwen3")) continue;
      const TemporaryFolder folder;
      ModelConfig asked = Small(family);
      asked.gate = gate;
      WriteRandomCheckpoint(folder / "m", asked, WeightType::kBf16, 3);
      const Model model(folder / "m");
      EXPECT_EQ(model.config().gate, gate);
      for (const auto& [name, vector] : model.layers()[1].vectors)
        EXPECT_THAT(vector, testing::Each(1.0f)) << family << " " << name;
    }
  }
}

TEST(RandomCheckpointTest, LoadsWithItsConfiguration) {
  for (const char* family : {"llama", "diffllama"}) {
    for (const WeightType type : {WeightType::kF32, WeightType::kBf16, WeightType::kF16}) {
      for (const bool flag : {false, true}) {
        const TemporaryFolder folder;
        ModelConfig asked = Small(family);
        asked.tied_embeddings = asked.attention_bias = flag;
        asked.mlp_bias = flag && Maps(asked) == 1;
        asked.rotary.theta = 30000;
        WriteRandomCheckpoint(folder / "m", asked, type, 3);
        Model model(folder / "m");
        const ModelConfig& c = model.config();
        EXPECT_EQ(c.family, family);
        EXPECT_EQ(c.vocabulary, 300);
        EXPECT_EQ(c.hidden, 64);
        EXPECT_EQ(c.ffn, 96);
        EXPECT_EQ(c.layers, 2);
        EXPECT_EQ(c.heads, 4);
        EXPECT_EQ(c.kv_heads, 2);
        EXPECT_EQ(c.head_dim, 24);
        EXPECT_EQ(c.norm_eps, 1e-5f);
        EXPECT_EQ(c.max_positions, 50);
        EXPECT_EQ(c.tied_embeddings, flag);
        EXPECT_EQ(c.attention_bias, flag);
        EXPECT_EQ(c.mlp_bias, asked.mlp_bias);
        EXPECT_EQ(c.rotary.theta, 30000);
        const DType dtype = type == WeightType::kF32    ? DType::kF32
                            : type == WeightType::kBf16 ? DType::kBF16
                                                        : DType::kF16;
        EXPECT_EQ(model.files().Find("model.layers.1.mlp.up_proj.weight")->dtype, dtype);
      }
    }
  }
}

TEST(RandomCheckpointTest, SeedsDetermineBytesOnAnyNumberOfThreads) {
  const TemporaryFolder folder;
  std::vector<std::string> files;
  for (const auto& [threads, seed] : {std::pair(1, 7), std::pair(5, 7), std::pair(2, 8)}) {
    SetThreads(threads);
    WriteRandomCheckpoint(folder / "m", Small("diffllama"), WeightType::kBf16, static_cast<uint64_t>(seed));
    files.push_back(GetFile(folder / "m" / "model.safetensors"));
  }
  SetThreads(0);
  EXPECT_EQ(files[0], files[1]);
  EXPECT_NE(files[0], files[2]);
}

// 19,200 values of deviation 1/8: their mean is within 5 deviations of a mean, and so is their square's.
TEST(RandomCheckpointTest, WeightsDeviateByTheRootOfTheirInputs) {
  const TemporaryFolder folder;
  WriteRandomCheckpoint(folder / "m", Small("diffllama"), WeightType::kF32, 1);
  const EditedCheckpoint checkpoint(folder / "m");
  const EditedCheckpoint::Tensor& embedding = checkpoint.tensors.at("model.embed_tokens.weight");
  const double n = 300 * 64;
  double sum = 0, squares = 0;
  for (size_t i = 0; i < 300 * 64; ++i) {
    const double z = 8 * double{embedding.Value(i)};
    sum += z;
    squares += z * z;
  }
  EXPECT_LT(std::abs(sum / n), 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_EQ(checkpoint.tensors.at("model.norm.weight").Value(63), 1.0f);
  EXPECT_NE(checkpoint.tensors.at("model.layers.0.self_attn.lambda_q1").Value(0),
            checkpoint.tensors.at("model.layers.0.self_attn.lambda_k1").Value(0));
}

TEST(RandomCheckpointTest, ScaledRotaryPositionsAreRefused) {
  const TemporaryFolder folder;
  ModelConfig config = Small("llama");
  config.rotary.type = RotaryConfig::Type::kLinear;
  EXPECT_THAT(Call([&] { WriteRandomCheckpoint(folder / "m", config, WeightType::kF32, 1); }),
              ThrowsMessage<Error>(HasSubstr("rotary")));
  EXPECT_TRUE(folder.Names().empty());
}

}  // namespace
}  // namespace tare::random_checkpoint_test
