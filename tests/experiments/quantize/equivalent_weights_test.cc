// SPDX-License-Identifier: Apache-2.0
// What each change does to one tensor. quantize_test.cc checks that whole models compute the same.
#include "experiments/quantize/equivalent_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>

#include <nlohmann/json.hpp>

#include "experiments/model/config/config.h"
#include "experiments/model/config/family.h"
#include "experiments/model/linear/weights.h"
#include "experiments/quantize/calibration/calibration_pass.h"
#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare::equivalent_weights_test {
namespace {

using testing::Contains;
using testing::Not;

const std::string kUp = "model.layers.0.mlp.up_proj.weight", kDown = "model.layers.0.mlp.down_proj.weight";

// A tensor after the changes, in f32.
std::vector<float> Written(const EquivalentWeights& weights, const std::string& name,
                           const std::string& golden = "llama-mha") {
  const TemporaryFolder folder;
  const auto model = GoldenFolder(golden);
  WriteEquivalent(OpenSplit(model, LoadConfig(model)), model, weights, {.plan = "f32"}, folder / "w.h5", {});
  const QuantizedCheckpoint file(folder / "w.h5");
  const TensorView& tensor = file.tensors().at(name);
  std::vector<float> values(tensor.bytes.size() / 4);
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

double Norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float x : values) sum += double{x} * x;
  return std::sqrt(sum);
}

TEST(EquivalentWeights, SmoothingDividesHereAndMultipliesThere) {
  const auto folder = GoldenFolder("llama-mha");
  const ModelConfig config = LoadConfig(folder);
  std::vector<LayerSmoothing> layers(static_cast<size_t>(config.layers));
  std::vector<float> s(static_cast<size_t>(config.ffn), 1.0f);
  s[3] = 4;
  layers[0][Site::kDownProjIn] = s;
  const EquivalentWeights none{.changes = {{kUp, {.source = kUp}}, {kDown, {.source = kDown}}}};
  const EquivalentWeights smoothed = Smoothed(Checkpoint(folder), config, layers);
  const std::vector<float> up = Written(none, kUp), down = Written(none, kDown);
  const std::vector<float> new_up = Written(smoothed, kUp), new_down = Written(smoothed, kDown);
  const auto hidden = static_cast<size_t>(config.hidden), inner = s.size();
  for (size_t row = 0; row < inner; ++row) {
    for (size_t i = 0; i < hidden; ++i) {
      ASSERT_EQ(new_up[row * hidden + i], up[row * hidden + i] / s[row]);
      ASSERT_EQ(new_down[i * inner + row], down[i * inner + row] * s[row]);
    }
  }
}

const std::string kLayer = "model.layers.0.", kAttends = "model.layers.7.";

// The tensor before and after.
std::array<std::vector<float>, 2> BothOfFlash(const EquivalentWeights& after, const std::string& name) {
  const EquivalentWeights none{.changes = {{name, {.source = name}}}};
  return {Written(none, name, "phi4flash"), Written(after, name, "phi4flash")};
}

// A LayerNorm's bias is divided as its weight; of x_proj only the rows that dt_proj reads; a head norm's weight in the
// place of values, whose channels all heads share.
TEST(EquivalentWeights, SmoothingDividesWhatAnInputIsLinearIn) {
  const auto folder = GoldenFolder("phi4flash");
  const ModelConfig config = LoadConfig(folder);
  std::vector<LayerSmoothing> layers(static_cast<size_t>(config.layers));
  layers[0][Site::kMambaInProjIn].assign(static_cast<size_t>(config.hidden), 2);
  layers[0][Site::kMambaDtProjIn].assign(static_cast<size_t>(config.scan_rank), 4);
  layers[7][Site::kOProjIn].assign(16, 1);
  layers[7][Site::kOProjIn][3] = 8;
  const EquivalentWeights smoothed = Smoothed(OpenSplit(folder, config), config, layers);
  const auto expect = [&](const std::string& name, const std::function<float(size_t)>& factor) {
    const auto [before, after] = BothOfFlash(smoothed, name);
    ASSERT_EQ(before.size(), after.size());
    for (size_t i = 0; i < before.size(); ++i) ASSERT_EQ(after[i], before[i] * factor(i)) << name << " " << i;
  };
  const auto channels = static_cast<size_t>(config.scan_channels), rank = static_cast<size_t>(config.scan_rank);
  expect(kLayer + "input_layernorm.weight", [](size_t) { return 0.5f; });
  expect(kLayer + "input_layernorm.bias", [](size_t) { return 0.5f; });
  expect(kLayer + "attn.in_proj.weight", [](size_t) { return 2.0f; });
  expect(kLayer + "attn.x_proj.weight", [&](size_t i) { return i / channels < rank ? 0.25f : 1.0f; });
  expect(kLayer + "attn.dt_proj.weight", [](size_t) { return 4.0f; });
  expect(kAttends + "attn.inner_cross_attn.subln.weight", [](size_t i) { return i == 3 ? 0.125f : 1.0f; });
  expect(kAttends + "attn.out_proj.weight", [](size_t i) { return i % 16 == 3 ? 8.0f : 1.0f; });
}

// The rotation of a stream that LayerNorms read keeps its mean: that of a token's embedding, and of what a layer adds.
TEST(EquivalentWeights, RotationKeepsTheMeanThatNormsSubtract) {
  const auto folder = GoldenFolder("phi4flash");
  const ModelConfig config = LoadConfig(folder);
  const EquivalentWeights rotated = Rotated(OpenSplit(folder, config), config, 1);
  const auto hidden = static_cast<size_t>(config.hidden);
  const auto [embedding, new_embedding] = BothOfFlash(rotated, "model.embed_tokens.weight");
  ASSERT_EQ(new_embedding.size(), embedding.size());
  EXPECT_NE(new_embedding, embedding);
  for (size_t i = 0; i < embedding.size(); i += hidden) {
    double sum = 0, new_sum = 0, size = 0;
    for (size_t j = 0; j < hidden; ++j) {
      sum += embedding[i + j], new_sum += new_embedding[i + j];
      size += std::fabs(embedding[i + j]);
    }
    ASSERT_NEAR(new_sum, sum, 1e-6 * size);
  }
  EXPECT_THAT(Written(rotated, kLayer + "input_layernorm.weight", "phi4flash"), testing::Each(1.0f));
  EXPECT_THAT(Written(rotated, kAttends + "attn.inner_cross_attn.subln.weight", "phi4flash"), testing::Each(1.0f));
}

// The norm's bias would be divided by it.
TEST(EquivalentWeights, ANormOfZeroWithABiasIsRefused) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("phi4flash"));
  checkpoint.tensors.at("model.layers.3.post_attention_layernorm.weight").SetBits(9, 0);
  checkpoint.Write(folder / "m");
  const ModelConfig config = LoadConfig(folder / "m");
  EXPECT_THAT([&] { Rotated(OpenSplit(folder / "m", config), config, 1); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "hadamard, tensor 'model.layers.3.post_attention_layernorm.weight': got 0 at index 9, expected "
                  "weights by which the norm's bias can be divided; try another method")));
}

// A rotation keeps every norm, and every entry changes; norms' weights become 1.
TEST(EquivalentWeights, RotationKeepsNormsOfRows) {
  const auto folder = GoldenFolder("llama-mha");
  const EquivalentWeights none{.changes = {{kDown, {.source = kDown}}}};
  const EquivalentWeights rotated = Rotated(Checkpoint(folder), LoadConfig(folder), 1);
  const std::vector<float> down = Written(none, kDown), new_down = Written(rotated, kDown);
  EXPECT_NEAR(Norm(new_down), Norm(down), 1e-5 * Norm(down));
  EXPECT_NE(new_down, down);
  EXPECT_NE(Written(Rotated(Checkpoint(folder), LoadConfig(folder), 2), kDown), new_down);
  EXPECT_THAT(Written(rotated, "model.norm.weight"), testing::Each(1.0f));
}

std::vector<double> Reversal(size_t n) {
  std::vector<double> reverse(n * n, 0.0);
  for (size_t i = 0; i < n; ++i) reverse[i * n + n - 1 - i] = 1;
  return reverse;
}

// What is learned turns the stream after the first rotation: with channels in reverse, down_proj's rows are.
TEST(EquivalentWeights, ALearnedRotationComesAfterTheFirst) {
  const auto folder = GoldenFolder("llama-mha");
  const ModelConfig config = LoadConfig(folder);
  const auto n = static_cast<size_t>(config.hidden), inner = static_cast<size_t>(config.ffn);
  const EquivalentWeights first = Rotated(Checkpoint(folder), config, 1),
                          both = Rotated(Checkpoint(folder), config, 1, {.stream = Reversal(n)});
  const std::vector<float> down = Written(first, kDown), new_down = Written(both, kDown), up = Written(first, kUp),
                           new_up = Written(both, kUp);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < inner; ++j) {
      ASSERT_EQ(new_down[(n - 1 - i) * inner + j], down[i * inner + j]);
      ASSERT_EQ(new_up[j * n + n - 1 - i], up[j * n + i]);
    }
  }
}

// A layer's own turn of values reverses the rows of v_proj and the inputs of o_proj head by head, in that layer alone.
TEST(EquivalentWeights, ALearnedRotationOfValuesIsItsLayers) {
  const auto folder = GoldenFolder("llama-mha");
  const ModelConfig config = LoadConfig(folder);
  const auto n = static_cast<size_t>(config.hidden), d = static_cast<size_t>(config.head_dim);
  LearnedRotations learned{.values = std::vector<std::vector<double>>(static_cast<size_t>(config.layers))};
  learned.values[0] = Reversal(d);
  const EquivalentWeights first = Rotated(Checkpoint(folder), config, 1),
                          both = Rotated(Checkpoint(folder), config, 1, learned);
  const std::string v = "model.layers.0.self_attn.v_proj.weight", o = "model.layers.0.self_attn.o_proj.weight",
                    next = "model.layers.1.self_attn.v_proj.weight";
  const std::vector<float> rows = Written(first, v), new_rows = Written(both, v), inputs = Written(first, o),
                           new_inputs = Written(both, o);
  const auto reversed = [&](size_t channel) { return channel / d * d + d - 1 - channel % d; };
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      ASSERT_EQ(new_rows[reversed(i) * n + j], rows[i * n + j]);
      ASSERT_EQ(new_inputs[i * n + reversed(j)], inputs[i * n + j]);
    }
  }
  EXPECT_EQ(Written(both, next), Written(first, next));
}

// A norm between v and o, as a differential head has, does not let a factor through.
TEST(EquivalentWeights, OnlyStandardHeadsSmoothTheInputOfO) {
  EXPECT_THAT(FamilyOf(LoadConfig(GoldenFolder("llama-mha"))).smoothed, Contains(Site::kOProjIn));
  EXPECT_THAT(FamilyOf(LoadConfig(GoldenFolder("diffllama-mha"))).smoothed, Not(Contains(Site::kOProjIn)));
}

TEST(EquivalentWeights, TheConfigSaysWhereEmbeddingsAreTwo) {
  const auto folder = GoldenFolder("llama-mha");
  EXPECT_EQ(ConfigOf(folder), GetFile(folder / "config.json"));
  EXPECT_EQ(nlohmann::json::parse(UntiedConfigOf(folder))["tie_word_embeddings"], false);
}

ModelConfig Config(const char* golden) { return LoadConfig(GoldenFolder(golden)); }

TEST(ScaledInput, LayersThatReadOneInputTogether) {
  const auto readers = [](const char* golden, Site site) {
    std::vector<Site> weights;
    for (const LinearLayer& linear : LayersWithInput(site, Config(golden), 1)) weights.push_back(linear.place->weight);
    return weights;
  };
  using testing::ElementsAre;
  EXPECT_THAT(readers("diffllama-gqa", Site::kQProjIn), ElementsAre(Site::kQProjW, Site::kKProjW, Site::kVProjW));
  EXPECT_THAT(readers("diffllama-gqa", Site::kGateProjIn), ElementsAre(Site::kGateProjW, Site::kUpProjW));
  EXPECT_THAT(readers("diff-v2-gqa", Site::kQProjIn), testing::Contains(Site::kLambdaProjW));
  EXPECT_EQ(std::ssize(readers("mixtral", Site::kExpertsGateUpIn)), 2 * Config("mixtral").experts);  // gate and up
}

// llama-gqa: six heads of 16 channels on two values: heads 0 to 2 have the first.
TEST(ScaledInput, HeadsThatShareAValueShareFactors) {
  const std::vector<int64_t> factor = FactorOf(Site::kOProjIn, 96, Config("llama-gqa"));
  ASSERT_EQ(factor.size(), 96u);
  EXPECT_EQ(factor[3], 3);
  EXPECT_EQ(factor[2 * 16 + 3], 3);
  EXPECT_EQ(factor[3 * 16 + 3], 16 + 3);
  EXPECT_THAT(FactorOf(Site::kDownProjIn, 3, Config("llama-gqa")), testing::ElementsAre(0, 1, 2));
}

// phi4flash: four heads of 16 channels, which the same weights of a head norm scale.
TEST(ScaledInput, HeadsBehindANormShareItsFactors) {
  const std::vector<int64_t> factor = FactorOf(Site::kOProjIn, 64, Config("phi4flash"));
  ASSERT_EQ(factor.size(), 64u);
  for (size_t i = 0; i < factor.size(); ++i) EXPECT_EQ(factor[i], static_cast<int64_t>(i % 16));
}

TEST(ScaledInput, AFamilyWithoutIsRefusedByName) {
  EXPECT_THAT(Call([] { RequireScaledInputs(FamilyOf(Config("clip-text")), "awq"); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("awq: got a clip_text_model model")));
  EXPECT_NO_THROW(RequireScaledInputs(FamilyOf(Config("llama-gqa")), "awq"));
}

}  // namespace
}  // namespace tare::equivalent_weights_test
