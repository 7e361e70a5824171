// SPDX-License-Identifier: Apache-2.0
// A layer's data: weights by name, positions, buffers.
// Parts of a layer, one after another, are the layer, bit for bit; each runs no step of another.
#include "experiments/model/layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "experiments/model/config/config.h"
#include "experiments/model/model.h"
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

namespace tare::layer_part_test {
namespace {

// Which of a layer's sites a pass shows.
class Shown : public SiteVisitor {
 public:
  explicit Shown(int layer) : layer_(layer) {}
  bool Wants(Site, std::optional<int> layer) const override { return layer == layer_; }
  void Visit(const SiteBlock& block, int) override {
    const std::lock_guard lock(mutex_);
    sites.insert(block.site);
  }
  std::set<Site> sites;

 private:
  int layer_;
  std::mutex mutex_;
};

TokenBatch SomeTokens() {
  TokenBatch batch;
  for (int s = 0; s < 2; ++s) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < 20 + s; ++i) tokens.push_back((7 * i + 31 * s) % 80 + 1);
    batch.Add(s, tokens);
  }
  return batch;
}

bool Equal(const AlignedBuffer<float>& a, const AlignedBuffer<float>& b) {
  return std::ranges::equal(a.span(), b.span());
}

// The inputs of the layer's linear layers before which a part may end, in order.
std::vector<Site> Ends(const ModelConfig& config, int layer) {
  std::vector<Site> ends;
  for (const LinearPlace& place : LinearOf(FamilyOf(config), config, layer)) {
    if (place.Input() == Site::kOProjIn || place.Input() == Site::kGateProjIn ||
        (place.Input() == Site::kUpProjIn && !std::ranges::contains(ends, Site::kGateProjIn)))
      ends.push_back(place.Input());
  }
  return ends;
}

TEST(LayerPart, PartsAreTheLayer) {
  for (const char* golden : kGoldenCheckpoints) {
    Model model(GoldenFolder(golden));
    const TokenBatch batch = SomeTokens();
    Stream whole, parts;
    model.EmbedInto(batch, whole);
    model.EmbedInto(batch, parts);
    for (int layer = 0; layer < model.config().layers; ++layer) {
      model.RunLayer(batch, layer, whole);
      AlignedBuffer<float> input;
      std::optional<Site> from;
      for (const Site until : Ends(model.config(), layer)) {
        LayerPart part(from, &input, until, &input);
        model.RunLayer(batch, layer, parts, {}, &part);
        from = until;
      }
      LayerPart rest(from, &input, {}, nullptr);
      model.RunLayer(batch, layer, parts, {}, &rest);
      ASSERT_TRUE(Equal(whole.x, parts.x)) << golden << ' ' << layer;
      ASSERT_TRUE(Equal(whole.k, parts.k) && Equal(whole.v, parts.v) && Equal(whole.memory, parts.memory)) << golden;
    }
  }
}

TEST(LayerPart, RunsNoStepOfAnother) {
  Model model(GoldenFolder("diffllama-gqa"));
  const TokenBatch batch = SomeTokens();
  Stream stream;
  model.EmbedInto(batch, stream);
  const Stream before = stream;
  AlignedBuffer<float> input;
  const auto seen = [&](std::optional<Site> from, std::optional<Site> until) {
    Shown shown(0);
    SiteVisitor* const visitors[] = {&shown};
    LayerPart part(from, &input, until, &input);
    model.RunLayer(batch, 0, stream, visitors, &part);
    return shown.sites;
  };
  EXPECT_EQ(seen({}, Site::kQProjIn), (std::set{Site::kQProjIn, Site::kKProjIn, Site::kVProjIn}));
  const std::set<Site> to_attention = seen(Site::kQProjIn, Site::kOProjIn);
  EXPECT_TRUE(to_attention.contains(Site::kProbs) && to_attention.contains(Site::kOProjIn));
  EXPECT_FALSE(to_attention.contains(Site::kAttnOut));
  EXPECT_TRUE(Equal(stream.x, before.x));
  EXPECT_FALSE(seen(Site::kOProjIn, Site::kGateProjIn).contains(Site::kProbs));
  EXPECT_FALSE(Equal(stream.x, before.x));
  EXPECT_FALSE(seen(Site::kGateProjIn, {}).contains(Site::kOProjIn));
}

// What is given is what the products read.
TEST(LayerPart, BeginsWithWhatIsGiven) {
  Model model(GoldenFolder("qwen2"));
  ASSERT_TRUE(model.layers()[0].o.bias().empty());
  const TokenBatch batch = SomeTokens();
  Stream stream;
  model.EmbedInto(batch, stream);
  AlignedBuffer<float> input;
  LayerPart first({}, nullptr, Site::kOProjIn, &input);
  model.RunLayer(batch, 0, stream, {}, &first);
  std::ranges::fill(input.span(), 0.0f);
  const Stream before = stream;
  LayerPart second(Site::kOProjIn, &input, Site::kGateProjIn, nullptr);
  model.RunLayer(batch, 0, stream, {}, &second);
  EXPECT_TRUE(Equal(stream.x, before.x));  // W_o 0 adds nothing
}

}  // namespace
}  // namespace tare::layer_part_test
