// SPDX-License-Identifier: Apache-2.0
// quantize_test.cc tests the effect of the searched factors on a whole model.
#include "experiments/quantize/steps/smoothquant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/model/config/family.h"
#include "experiments/quantize/calibration/calibration_pass.h"
#include "experiments/quantize/equivalent_weights.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::smoothquant_step_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Every input's largest magnitude is 2 in channel 0 and 0.5 in the others.
StatisticsSet Seen(const Model& model) {
  StatisticsSet seen;
  for (int layer = 0; layer < model.config().layers; ++layer) {
    for (const Site site : FamilyOf(model.config()).smoothed) {
      const std::vector<LinearLayer> readers = LayersWithInput(site, model.config(), layer);
      if (readers.empty()) continue;
      const auto channels = static_cast<size_t>(ShapeOf(readers.front().place->weight, model.config()).in);
      SiteStatistics& s =
          seen.sites.try_emplace(SiteKey{.site = site, .layer = layer}, seen.Sums(site).size()).first->second;
      s.channel_absmax.assign(channels, 0.5f);
      s.channel_absmax[0] = 2;
    }
  }
  return seen;
}

// At alpha 1 weights do not count: s is the input's largest magnitude; at alpha 0 the input does not.
TEST(Smoothing, FactorsFollowFromStatistics) {
  const Model model(GoldenFolder("llama-mha"));
  const std::vector<LayerSmoothing> layers = SmoothingOf(model, Seen(model), 1.0);
  ASSERT_EQ(std::ssize(layers), model.config().layers);
  for (const LayerSmoothing& layer : layers) {
    EXPECT_EQ(layer.size(), FamilyOf(model.config()).smoothed.size());
    for (const auto& [site, s] : layer) {
      EXPECT_EQ(s[0], 2.0f) << Name(site);
      EXPECT_EQ(s[1], 0.5f) << Name(site);
    }
  }
  const auto of_weights = SmoothingOf(model, Seen(model), 0.0)[0].at(Site::kDownProjIn);
  const auto half = SmoothingOf(model, Seen(model), 0.5)[0].at(Site::kDownProjIn);
  EXPECT_NEAR(half[0], std::sqrt(2.0f * of_weights[0]), 1e-5f * half[0]);
  EXPECT_NEAR(half[1], std::sqrt(0.5f * of_weights[1]), 1e-5f * half[1]);
}

// Layers of other kinds lack the input, and need no statistics of it.
TEST(Smoothing, EachKindOfLayerHasItsOwnInputs) {
  const Model model(GoldenFolder("phi4flash"));
  const std::vector<LayerSmoothing> layers = SmoothingOf(model, Seen(model), 1.0);
  const auto inputs = [&](size_t layer) {
    std::vector<Site> sites;
    for (const auto& [site, s] : layers[layer]) sites.push_back(site);
    return sites;
  };
  using testing::UnorderedElementsAre;
  EXPECT_THAT(inputs(0),
              UnorderedElementsAre(Site::kMambaInProjIn, Site::kMambaDtProjIn, Site::kGateProjIn, Site::kDownProjIn));
  EXPECT_THAT(inputs(6), UnorderedElementsAre(Site::kGmuInProjIn, Site::kGateProjIn, Site::kDownProjIn));
  for (const size_t attends : {1u, 7u})  // its own keys, and shared ones
    EXPECT_THAT(inputs(attends),
                UnorderedElementsAre(Site::kQProjIn, Site::kOProjIn, Site::kGateProjIn, Site::kDownProjIn));
  EXPECT_EQ(layers[7].at(Site::kOProjIn).size(), 16u);
}

TEST(Smoothing, InputsWithoutStatisticsAreRefused) {
  const Model model(GoldenFolder("llama-mha"));
  StatisticsSet seen = Seen(model);
  seen.sites.erase(SiteKey{.site = Site::kDownProjIn, .layer = 1});
  EXPECT_THAT(Call([&] { SmoothingOf(model, seen, 0.5); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("down_proj.in in layer 1"), HasSubstr("try tare stats"))));
}

TEST(Smoothing, ASearchNeedsAPlanThatRounds) {
  Model model(GoldenFolder("llama-mha"));
  const std::vector<ScoredSequence> text = {{.tokens = {1, 5, 9, 2}}};
  EXPECT_THAT(Call([&] { SmoothingOf(model, text, Plan::Parse("attn_logits=int8/row"), std::nullopt, {}); }),
              ThrowsMessage<Error>(HasSubstr("rounds no linear layer")));
  EXPECT_THAT(Call([&] { SmoothingOf(model, text, Plan::Parse("linear_in=int8/token+mse"), std::nullopt, {}); }),
              ThrowsMessage<Error>(HasSubstr("linear_in=int8/token+mse")));
}

}  // namespace
}  // namespace tare::smoothquant_step_test
