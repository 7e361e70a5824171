// SPDX-License-Identifier: Apache-2.0
// A converted model computes the same: vocabulary logits within 1e-5 of the largest, there and back. What a layout
// cannot express is refused.
#include "experiments/export/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/config.h"
#include "experiments/model/model.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::layout_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<float> Logits(const std::filesystem::path& folder, const std::string& golden) {
  Model model(folder);
  TokenBatch batch;
  const auto rows = GoldenRows(golden);
  for (size_t i = 0; i < rows.size(); ++i) batch.Add(static_cast<int64_t>(i), rows[i]);
  return LogitsOf(model, batch);
}

class LayoutTest : public testing::Test {
 protected:
  void Refuses(const std::filesystem::path& model, const char* to, const char* why) {
    EXPECT_THAT(Call([&] { ConvertLayout(model, to, folder_ / "refused"); }), ThrowsMessage<Error>(HasSubstr(why)));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "refused"));
  }
  TemporaryFolder folder_;
};

TEST_F(LayoutTest, TheAuthorsToHuggingFaceAndBack) {
  for (const char* golden : {"diff-v1-mha", "diff-v1-gqa"}) {
    const std::filesystem::path hf = folder_ / (std::string(golden) + "-hf"),
                                back = folder_ / (std::string(golden) + "-back");
    const ConvertSummary there = ConvertLayout(GoldenFolder(golden), "diffllama", hf);
    EXPECT_EQ(there.moved, 2 * 3);  // q, k and v of both layers
    EXPECT_EQ(there.folded, 2);
    EXPECT_EQ(LoadConfig(hf).family, "diffllama");
    EXPECT_FALSE(CheckpointFiles(hf).Find("model.layers.0.self_attn.subln.weight"));
    const std::vector<float> expected = Logits(GoldenFolder(golden), golden);
    EXPECT_TRUE(AllNear(Logits(hf, golden), expected, 1e-5)) << golden;
    EXPECT_EQ(ConvertLayout(hf, "diff_v1", back).folded, 0);
    EXPECT_TRUE(AllNear(Logits(back, golden), expected, 1e-5)) << golden;
    const CheckpointFiles first(GoldenFolder(golden)), last(back);
    for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
      const std::string tensor = std::string("model.layers.1.self_attn.") + name + ".weight";
      EXPECT_TRUE(std::ranges::equal(first.Find(tensor)->bytes, last.Find(tensor)->bytes)) << tensor;
    }
  }
}

TEST_F(LayoutTest, HuggingFaceToTheAuthors) {
  for (const char* golden : {"diffllama-mha", "diffllama-gqa"}) {
    EditedCheckpoint source(GoldenFolder(golden));
    ConvertLayout(GoldenFolder(golden), "diff_v1", folder_ / golden);
    EXPECT_EQ(LoadConfig(folder_ / golden).rotary.layout, RotaryConfig::Layout::kInterleaved);
    EXPECT_TRUE(AllNear(Logits(folder_ / golden, golden), Logits(GoldenFolder(golden), golden), 1e-5)) << golden;
  }
}

// Other options of the record are said by where rows are.
TEST_F(LayoutTest, PairingAndRotaryLayoutAreMoved) {
  EditedCheckpoint source(GoldenFolder("diff-v1-mha"));
  source.config["head_pairing"] = "halves";
  source.config["rotary_layout"] = "half-split";
  source.Write(folder_ / "m");
  EXPECT_EQ(ConvertLayout(folder_ / "m", "diffllama", folder_ / "hf").moved, 0);
  const std::vector<float> expected = Logits(folder_ / "m", "diff-v1-mha");
  EXPECT_TRUE(AllNear(Logits(folder_ / "hf", "diff-v1-mha"), expected, 1e-5));
  EXPECT_FALSE(AllNear(Logits(GoldenFolder("diff-v1-mha"), "diff-v1-mha"), expected, 1e-2));  // or nothing was tried
}

TEST_F(LayoutTest, WhatALayoutCannotExpressIsRefused) {
  Refuses(GoldenFolder("diff-v2-gqa"), "diffllama", "got diff_v2 with self_attn.lambda_proj, expected a model without");
  Refuses(GoldenFolder("motif"), "diffllama", "to diffllama: hidden_act: got 'poly_norm', expected silu");
  Refuses(GoldenFolder("llama-mha"), "diffllama", "got a llama model, expected diffllama or diff_v1");
  Refuses(GoldenFolder("diff-v1-mha"), "llama", "got a diff_v1 model, expected llama");
  Refuses(GoldenFolder("diff-v1-mha"), "gpt2", "--to: got 'gpt2', expected llama");
  EditedCheckpoint source(GoldenFolder("diff-v1-mha"));
  source.config["lambda_init"] = 0.8;
  source.Write(folder_ / "m");
  Refuses(folder_ / "m", "diffllama", "got lambda_init 0.8 in layer 0, expected 0.2, by the layer's depth");
  source.config.erase("lambda_init");
  source.config["attn_rms_norm_eps"] = 1e-3;
  source.Write(folder_ / "m");
  Refuses(folder_ / "m", "diffllama", "got a norm of heads with eps 0.001, expected rms_norm_eps 1e-05, its only one");
}

// diff_v1 may have biases in its MLP; diffllama has none, whatever mlp_bias says.
TEST_F(LayoutTest, BiasesThatTheTargetLacks) {
  EditedCheckpoint source(GoldenFolder("diff-v1-mha"));
  source.config["mlp_bias"] = true;
  for (int layer = 0; layer < 2; ++layer) {
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
      const std::string tensor = Formatted("model.layers.{}.mlp.{}.", layer, name);
      const int64_t rows = source.tensors.at(tensor + "weight").shape.front();
      EditedCheckpoint::Tensor bias{DType::kF32, {rows}, std::vector<std::byte>(static_cast<size_t>(4 * rows))};
      for (size_t i = 0; i < static_cast<size_t>(rows); ++i) bias.SetBits(i, 0x3e800000);  // 0.25
      source.tensors[tensor + "bias"] = bias;
    }
  }
  source.Write(folder_ / "m");
  Refuses(folder_ / "m", "diffllama",
          "to diffllama: got mlp.gate_proj with a bias, expected it without one, as in diffllama");
  ConvertLayout(folder_ / "m", "diff_v1", folder_ / "n");
  EXPECT_TRUE(AllNear(Logits(folder_ / "n", "diff-v1-mha"), Logits(folder_ / "m", "diff-v1-mha"), 1e-6));
  EditedCheckpoint ignored(GoldenFolder("diffllama-mha"));
  ignored.config["mlp_bias"] = true;
  ignored.Write(folder_ / "o");
  ConvertLayout(folder_ / "o", "diff_v1", folder_ / "p");
  EXPECT_TRUE(AllNear(Logits(folder_ / "p", "diffllama-mha"), Logits(folder_ / "o", "diffllama-mha"), 1e-5));
}

TEST_F(LayoutTest, AnotherLambdaInitIsKept) {
  EditedCheckpoint source(GoldenFolder("diff-v1-mha"));
  source.config["lambda_init"] = 0.8;
  source.Write(folder_ / "m");
  ConvertLayout(folder_ / "m", "diff_v1", folder_ / "n");
  EXPECT_TRUE(AllNear(Logits(folder_ / "n", "diff-v1-mha"), Logits(folder_ / "m", "diff-v1-mha"), 1e-6));
}

}  // namespace
}  // namespace tare::layout_test
