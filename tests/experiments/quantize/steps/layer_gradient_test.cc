// SPDX-License-Identifier: Apache-2.0
// The layer against the model's own in every family that it serves; gradients against differences of the layer's
// outputs.
#include "experiments/quantize/steps/autoround.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <set>

#include "experiments/model/activation.h"
#include "experiments/model/model.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/random_quantized.h"

namespace tare::layer_gradient_test {
namespace {

constexpr auto kServed = std::to_array<const char*>(
    {"llama-gqa", "diffllama-mha", "diffllama-gqa", "diff-v1-mha", "diff-v1-gqa", "qwen2", "mistral", "ministral",
     "smollm3", "granite", "phi3", "diff-v2-gqa", "qwen3", "qwen3-gate-head", "qwen3-gate-element"});

std::set<Site> LinearSites(const ModelConfig& config, int layer) {
  std::set<Site> sites;
  for (const LinearLayer& linear : LinearLayersOf(config, layer)) sites.insert(linear.place->weight);
  return sites;
}

TokenBatch TwoSequences() {
  TokenBatch batch;
  for (int s = 0; s < 2; ++s) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < 25 + 10 * s; ++i) tokens.push_back((7 * i * i + 31 * s) % 90 + 1);
    batch.Add(s, tokens);
  }
  return batch;
}

// The goldens' weights are bf16, of which some products on some machines add up in another order than those of f32.
TEST(LayerGradient, ForwardIsTheModelsLayer) {
  for (const char* golden : kServed) {
    SCOPED_TRACE(golden);
    Model model(GoldenFolder(golden));
    const TokenBatch batch = TwoSequences();
    Stream stream;
    model.EmbedInto(batch, stream);
    const auto values = static_cast<size_t>(batch.Rows() * model.config().hidden);
    for (int layer = 0; layer < model.config().layers; ++layer) {
      LayerGradient gradient(model.config(), model.layers()[static_cast<size_t>(layer)], layer, {});
      const float* const got = gradient.Forward(batch, stream.x.data());
      model.RunLayer(batch, layer, stream);
      for (size_t i = 0; i < values; ++i) ASSERT_NEAR(got[i], stream.x[i], 1e-5) << layer << " " << i;
    }
  }
}

class Differences {
 public:
  explicit Differences(const char* golden, const std::optional<std::set<Site>>& learned = {})
      : model_(GoldenFolder(golden)), batch_(TwoSequences()) {
    model_.EmbedInto(batch_, stream_);
    model_.RunLayer(batch_, 0, stream_);
    layer_.emplace(model_.config(), model_.layers()[1], 1, learned.value_or(LinearSites(model_.config(), 1)));
    dy_ = RandomNormal(static_cast<size_t>(batch_.Rows() * model_.config().hidden), 5);
  }

  LayerGradient& layer() { return *layer_; }
  const ModelConfig& config() const { return model_.config(); }
  double Loss() {
    const float* const y = layer_->Forward(batch_, stream_.x.data());
    return std::inner_product(dy_.begin(), dy_.end(), y, 0.0, std::plus<>(),
                              [](float a, float b) { return double{a} * double{b}; });
  }
  void Backward() {
    Loss();
    layer_->Backward(dy_.data());
  }
  // The derivative of the loss along a direction of a weight: two central differences, whose errors of h^2 cancel.
  double Along(Site weight, const std::vector<float>& direction, float h) {
    return (4 * Central(weight, direction, h / 2) - Central(weight, direction, h)) / 3;
  }

 private:
  double Central(Site weight, const std::vector<float>& direction, float h) {
    float* const w = layer_->Weight(weight);
    const std::vector<float> at(w, w + direction.size());
    const auto loss = [&](float by) {
      for (size_t i = 0; i < at.size(); ++i) w[i] = at[i] + by * direction[i];
      return Loss();
    };
    const double difference = loss(h) - loss(-h);
    std::ranges::copy(at, w);
    return difference / (2 * double{h});
  }

  Model model_;
  TokenBatch batch_;
  Stream stream_;
  std::optional<LayerGradient> layer_;
  std::vector<float> dy_;
};

// Directions of unit length, of random entries: the derivative along one is a gradient's length times a normal value
// over the root of its entries. f32 outputs leave an error of some 1e-3 of that in the difference.
TEST(LayerGradient, GradientsAreDifferencesOfTheOutput) {
  for (const char* golden : kServed) {
    SCOPED_TRACE(golden);
    Differences of(golden);
    of.Backward();
    for (const LinearLayer& linear : LinearLayersOf(of.config(), 1)) {
      const Site site = linear.place->weight;
      SCOPED_TRACE(Name(site));
      const auto [out, in] = ShapeOf(site, of.config());
      const std::span<const float> gradient(of.layer().Gradient(site), static_cast<size_t>(out * in));
      const double length = std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0));
      ASSERT_GT(length, 0);
      for (unsigned seed = 1; seed <= 3; ++seed) {
        std::vector<float> direction = RandomNormal(gradient.size(), seed);
        const double norm = std::sqrt(std::inner_product(direction.begin(), direction.end(), direction.begin(), 0.0));
        for (float& one : direction) one = static_cast<float>(one / norm);
        const double expected = std::inner_product(direction.begin(), direction.end(), gradient.begin(), 0.0);
        const double unit = length / std::sqrt(static_cast<double>(gradient.size()));
        EXPECT_NEAR(of.Along(site, direction, 0.1f), expected, 0.02 * unit) << seed;
      }
    }
  }
}

// Rows of batches that shrink to one token; a lone token attends to itself alone, whatever its query and key.
TEST(LayerGradient, OfOneToken) {
  Model model(GoldenFolder("diff-v2-gqa"));
  LayerGradient layer(model.config(), model.layers()[0], 0, LinearSites(model.config(), 0));
  const auto run = [&](const std::vector<int32_t>& tokens) {
    TokenBatch batch;
    batch.Add(0, tokens);
    Stream stream;
    model.EmbedInto(batch, stream);
    const std::vector<float> dy(static_cast<size_t>(batch.Rows() * model.config().hidden), 1.0f);
    layer.ClearGradients();
    layer.Forward(batch, stream.x.data());
    layer.Backward(dy.data());
    const auto [out, in] = ShapeOf(Site::kVProjW, model.config());
    const float* const values = layer.Gradient(Site::kVProjW);
    return std::vector<float>(values, values + out * in);
  };
  const std::vector<float> alone = run({5});
  EXPECT_THAT(alone, testing::Contains(testing::Not(0.0f)));
  const auto [out, in] = ShapeOf(Site::kQProjW, model.config());
  EXPECT_THAT(std::span(layer.Gradient(Site::kQProjW), out * in), testing::Each(testing::FloatNear(0, 1e-5f)));
  run({5, 6, 7, 8});
  EXPECT_EQ(run({5}), alone);
}

// Nothing of the rest changes where few weights are learned and most steps are left out.
TEST(LayerGradient, OfSomeWeightsAsOfAll) {
  Differences all("diff-v2-gqa");
  all.Backward();
  for (const Site site : LinearSites(all.config(), 1)) {
    SCOPED_TRACE(Name(site));
    Differences one("diff-v2-gqa", std::set{site});
    one.Backward();
    const auto [out, in] = ShapeOf(site, all.config());
    const auto gradient = [&](Differences& of) { return std::span(of.layer().Gradient(site), out * in); };
    EXPECT_THAT(gradient(one), testing::ElementsAreArray(gradient(all)));
  }
}

TEST(LayerGradient, GradientsAddUpUntilTheyAreCleared) {
  Differences of("diffllama-gqa");
  of.Backward();
  const float once = of.layer().Gradient(Site::kKProjW)[5];
  ASSERT_NE(once, 0);
  of.Backward();
  EXPECT_EQ(of.layer().Gradient(Site::kKProjW)[5], 2 * once);
  of.layer().ClearGradients();
  EXPECT_EQ(of.layer().Gradient(Site::kKProjW)[5], 0);
}

TEST(LayerGradient, ThreadsDoNotShow) {
  const auto gradient = [](int threads) {
    SetThreads(threads);
    Differences of("diffllama-gqa");
    of.Backward();
    const auto [out, in] = ShapeOf(Site::kQProjW, of.config());
    return std::vector<float>(of.layer().Gradient(Site::kQProjW), of.layer().Gradient(Site::kQProjW) + out * in);
  };
  const std::vector<float> one = gradient(1), three = gradient(3);
  SetThreads(0);
  EXPECT_EQ(one, three);
}

TEST(LayerGradient, OtherLayersAreRefused) {
  for (const char* golden : {"olmo2", "gemma3", "motif", "phi4flash", "gpt-oss", "mixtral", "qwen3-moe"}) {
    const Model model(GoldenFolder(golden));
    EXPECT_THAT(WithoutGradient(model.config()), testing::HasSubstr("through whose layers no gradient")) << golden;
    EXPECT_THAT(Call([&] { LayerGradient(model.config(), model.layers()[0], 0, {}); }),
                testing::ThrowsMessage<Error>(testing::HasSubstr("try signround")));
  }
  ModelConfig gelu = Model(GoldenFolder("llama-mha")).config();
  EXPECT_EQ(WithoutGradient(gelu), "");
  gelu.activation = FindActivation("gelu");
  EXPECT_THAT(WithoutGradient(gelu), testing::HasSubstr("a llama model with gelu, through whose layers"));
}

// Steps on rows, against differences in double of their formulas: with steps of 1e-5 off by 1e-9 of values of order 1,
// and f32 rounds to 6e-8 of what is summed.
constexpr double kStep = 1e-5;

// d of the sum of dy times a step's outputs by each input.
std::vector<double> RowDifferences(const std::vector<float>& x,
                                   const std::function<double(const std::vector<double>&)>& loss) {
  std::vector<double> at(x.begin(), x.end()), d;
  for (double& one : at) {
    const double before = one;
    one = before + kStep;
    const double high = loss(at);
    one = before - kStep;
    d.push_back((high - loss(at)) / (2 * kStep));
    one = before;
  }
  return d;
}

TEST(RowsGradient, RmsNorm) {
  for (const size_t n : {size_t{1}, size_t{3}, size_t{64}, size_t{77}}) {
    const std::vector<float> x = RandomNormal(n, 1), weight = RandomNormal(n, 2), dy = RandomNormal(n, 3);
    for (const bool weighted : {true, false}) {
      const auto loss = [&](const std::vector<double>& at) {
        double squares = 0, sum = 0;
        for (const double one : at) squares += one * one;
        for (size_t i = 0; i < n; ++i)
          sum += at[i] / std::sqrt(squares / static_cast<double>(n) + 0.1) * (weighted ? double{weight[i]} : 1.0) *
                 double{dy[i]};
        return sum;
      };
      const std::vector<double> expected = RowDifferences(x, loss);
      std::vector<float> dx = dy;  // in place
      RmsNormGradient(x.data(), weighted ? weight.data() : nullptr, 0.1f, dx.data(), n, dx.data());
      for (size_t i = 0; i < n; ++i) EXPECT_NEAR(dx[i], expected[i], 2e-6) << n << " " << i;
    }
  }
}

TEST(RowsGradient, RowsOfZerosHaveAFiniteGradient) {
  const std::vector<float> x(8, 0.0f), dy(8, 1.0f);
  std::vector<float> dx(8);
  RmsNormGradient(x.data(), nullptr, 1e-6f, dy.data(), 8, dx.data());
  for (const float one : dx) EXPECT_NEAR(one, 1000, 0.01);
}

TEST(RowsGradient, SwiGlu) {
  constexpr size_t kN = 50;
  std::vector<float> gate = RandomNormal(kN, 4);
  const std::vector<float> up = RandomNormal(kN, 5), dy = RandomNormal(kN, 6);
  for (float& one : gate) one *= 3;
  const auto loss = [&](const std::vector<double>& g, const std::vector<double>& u) {
    double sum = 0;
    for (size_t i = 0; i < kN; ++i) sum += g[i] / (1 + std::exp(-g[i])) * u[i] * double{dy[i]};
    return sum;
  };
  const std::vector<double> gates(gate.begin(), gate.end()), ups(up.begin(), up.end());
  const std::vector<double> of_gate = RowDifferences(gate, [&](const auto& at) { return loss(at, ups); }),
                            of_up = RowDifferences(up, [&](const auto& at) { return loss(gates, at); });
  std::vector<float> dgate(kN), dup(kN);
  SwiGluGradient(gate.data(), up.data(), dy.data(), kN, dgate.data(), dup.data());
  for (size_t i = 0; i < kN; ++i) {
    EXPECT_NEAR(dgate[i], of_gate[i], 5e-6) << i;
    EXPECT_NEAR(dup[i], of_up[i], 5e-6) << i;
  }
}

TEST(RowsGradient, SwiGluOfGatesFarFromZero) {
  const std::vector<float> gate{-200, 200}, up{1, 1}, dy{1, 1};
  std::vector<float> dgate(2), dup(2);
  SwiGluGradient(gate.data(), up.data(), dy.data(), 2, dgate.data(), dup.data());
  EXPECT_NEAR(dgate[0], 0, 1e-30);
  EXPECT_EQ(dgate[1], 1);
  EXPECT_EQ(dup[1], 200);
}

}  // namespace
}  // namespace tare::layer_gradient_test
