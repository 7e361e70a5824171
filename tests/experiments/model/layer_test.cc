// SPDX-License-Identifier: Apache-2.0
// A layer's data: weights by name, positions, buffers.
#include "experiments/model/layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/read_config.h"
#include "quant/base/parallel.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare::layer_test {
namespace {

using ::testing::ElementsAre;

TokenBatch BranchedBatch() {
  TokenBatch batch;
  batch.Add(4, std::vector<int32_t>(3, 1));
  batch.AddBranch(std::vector<int32_t>(2, 1));
  batch.AddBranch(std::vector<int32_t>(1, 1));
  batch.Add(2, std::vector<int32_t>(130, 1));
  return batch;
}

TEST(LayerTest, LayersTakeTheirOwnTensorsAndBiases) {
  const EditedCheckpoint source(GoldenFolder("llama-gqa"));
  const ModelConfig config = LoadConfig(GoldenFolder("llama-gqa"));
  const Projector projector(Math::kF32);
  Weights weights(GoldenFolder("llama-gqa"), projector);
  const LayerWeights layer = LoadLayer(weights, config, 1);
  const auto expect = [&](const LinearWeights& linear, const std::string& name, int64_t out, int64_t in) {
    const EditedCheckpoint::Tensor& stored = source.tensors.at("model.layers.1." + name + ".weight");
    const EditedCheckpoint::Tensor& bias = source.tensors.at("model.layers.1." + name + ".bias");
    ASSERT_EQ(linear.stored().out, out) << name;
    ASSERT_EQ(linear.stored().in, in) << name;
    std::vector<float> row(static_cast<size_t>(in));
    RowAsFloat(linear.stored(), out - 1, row.data());
    EXPECT_EQ(row[0], stored.Value(static_cast<size_t>((out - 1) * in))) << name;
    ASSERT_EQ(std::ssize(linear.bias()), out) << name;
    EXPECT_EQ(linear.bias()[static_cast<size_t>(out) / 2], bias.Value(static_cast<size_t>(out) / 2)) << name;
  };
  expect(layer.q, "self_attn.q_proj", 96, 48);
  expect(layer.k, "self_attn.k_proj", 32, 48);
  expect(layer.v, "self_attn.v_proj", 32, 48);
  expect(layer.o, "self_attn.o_proj", 48, 96);
  expect(layer.gate, "mlp.gate_proj", 80, 48);
  expect(layer.up, "mlp.up_proj", 80, 48);
  expect(layer.down, "mlp.down_proj", 48, 80);
  EXPECT_EQ(layer.vectors.at("input_layernorm.weight")[5],
            source.tensors.at("model.layers.1.input_layernorm.weight").Value(5));
  EXPECT_EQ(layer.vectors.at("post_attention_layernorm.weight")[5],
            source.tensors.at("model.layers.1.post_attention_layernorm.weight").Value(5));
}

TEST(LayerTest, PositionsOfABranchContinueItsPrefix) {
  const ModelConfig config = LoadConfig(GoldenFolder("llama-mha"));
  Activations a;
  a.Prepare(BranchedBatch(), config);
  ASSERT_EQ(a.positions.size(), 136u);
  EXPECT_THAT(std::vector(a.positions.begin(), a.positions.begin() + 8), ElementsAre(0, 1, 2, 3, 4, 3, 0, 1));
  EXPECT_EQ(a.positions.back(), 129);
}

TEST(LayerTest, BuffersHoldWholeBlocksOfFiniteRows) {
  const ModelConfig config = LoadConfig(GoldenFolder("llama-gqa"));
  Activations a;
  TokenBatch batch;
  batch.Add(0, std::vector<int32_t>(65, 1));
  a.Prepare(batch, config);
  EXPECT_EQ(a.x.size(), 80u * 48);
  EXPECT_EQ(a.q.size(), 80u * 96);
  EXPECT_EQ(a.k.size(), 80u * 32);
  EXPECT_EQ(a.gate.size(), 80u * 80);
  for (const AlignedBuffer<float>* buffer :
       {&a.x, &a.normed, &a.delta, &a.q, &a.k, &a.v, &a.attended, &a.gate, &a.up}) {
    EXPECT_TRUE(std::ranges::all_of(buffer->span(), [](float x) { return x == 0.0f; }));
  }
  const float* before = a.x.data();
  batch = {};
  batch.Add(0, std::vector<int32_t>(3, 1));
  a.Prepare(batch, config);
  EXPECT_EQ(a.x.data(), before);
}

TEST(LayerTest, BuffersGrowWithZeros) {
  AlignedBuffer<float> buffer;
  GrowRows(buffer, 3, 5);
  EXPECT_GE(buffer.size(), 15u);
  for (const float value : buffer.span()) EXPECT_EQ(value, 0);
  buffer[14] = 1;
  GrowRows(buffer, 2, 5);  // keeps what it has
  EXPECT_EQ(buffer[14], 1);
}

}  // namespace
}  // namespace tare::layer_test
