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
  Refuses(
      GoldenFolder("llama-mha"), "diffllama",
      "got a llama model, expected diffllama or diff_v1: no weights undo their norm of each head's output; try --to");
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

// Both maps of a head are the Llama's one, so the model computes the same: every tensor as the reference converts it.
TEST_F(LayoutTest, ALlamaAsDifferential) {
  for (const char* kind : {"a", "b"}) {  // f32; bf16, grouped and tied
    const std::string llama = std::string("convert/llama-") + kind, doubled = std::string("convert/diff_v2-") + kind;
    const ConvertSummary made = ConvertLayout(GoldenFolder(llama), "diff_v2", folder_ / kind);
    const int layers = LoadConfig(GoldenFolder(llama)).layers;
    EXPECT_EQ(made.moved, 2 * layers);  // q and k
    EXPECT_EQ(made.doubled, layers);
    EXPECT_EQ(made.folded, 0);
    const CheckpointFiles expected(GoldenFolder(doubled)), got(folder_ / kind);
    EXPECT_EQ(got.names(), expected.names());
    for (const std::string& name : expected.names()) {
      EXPECT_EQ(got.Find(name)->dtype, expected.Find(name)->dtype) << name;
      EXPECT_TRUE(std::ranges::equal(got.Find(name)->bytes, expected.Find(name)->bytes)) << name;
    }
    const Safetensors reference(GoldenFolder(llama) / "expected.safetensors");
    EXPECT_TRUE(AllNear(Logits(folder_ / kind, llama), ValuesOf<float>(reference, "logits"), 2e-6)) << kind;
    EXPECT_TRUE(AllNear(Logits(folder_ / kind, llama), Logits(GoldenFolder(llama), llama), 1e-6)) << kind;
  }
}

// Biases stay once; one of o_proj that only the target has is 0; a Phi's fused rows become matrices.
TEST_F(LayoutTest, OtherModelsLikeLlamaAsDifferential) {
  EditedCheckpoint qwen(GoldenFolder("qwen2"));
  qwen.config["use_sliding_window"] = false;
  qwen.config.erase("layer_types");
  qwen.Write(folder_ / "qwen2");
  for (const auto& [model, golden] : {std::pair(folder_ / "qwen2", "qwen2"),
                                      {GoldenFolder("llama-gqa"), "llama-gqa"},
                                      {GoldenFolder("llama-old-config"), "llama-old-config"}}) {
    const std::filesystem::path made = folder_ / (std::string(golden) + "-doubled");
    ConvertLayout(model, "diff_v2", made);
    EXPECT_TRUE(AllNear(Logits(made, golden), Logits(model, golden), 1e-6)) << golden;
  }
}

TEST_F(LayoutTest, WhatHasNoDifferentialCopyIsRefused) {
  Refuses(GoldenFolder("qwen2"), "diff_v2", "to diff_v2: sliding_window: 7 is not supported");
  Refuses(GoldenFolder("qwen3"), "diff_v2", "got qwen3 with self_attn.q_norm.weight, expected a model without it");
  Refuses(GoldenFolder("olmo2"), "diff_v2", "got an olmo2 model, expected one like llama");
  Refuses(GoldenFolder("granite"), "diff_v2", "got multipliers of embeddings, layers or logits, expected none");
  Refuses(GoldenFolder("smollm3"), "diff_v2", "got layers without rotary positions, expected none");
  Refuses(GoldenFolder("phi3"), "diff_v2", "expected 1 of a diff_v2 model");
  Refuses(GoldenFolder("motif"), "diff_v2", "to diff_v2: ");
  Refuses(GoldenFolder("llama-mha"), "phi3", "got a phi3 model, expected a family that stores each projection alone");
  EditedCheckpoint large(GoldenFolder("convert/llama-b"));
  large.tensors.at("model.layers.1.self_attn.o_proj.weight").SetBits(0, 0x7f00);  // 2^127
  large.Write(folder_ / "large");
  EXPECT_THAT(
      Call([&] { ConvertLayout(folder_ / "large", "diff_v2", folder_ / "part"); }),
      ThrowsMessage<Error>(HasSubstr("tensor 'model.layers.1.self_attn.o_proj.weight': got values whose product "
                                     "with 2 BF16 cannot hold")));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "part"));
}

}  // namespace
}  // namespace tare::layout_test
