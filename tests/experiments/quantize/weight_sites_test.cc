// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/weight_sites.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"

namespace tare {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(WeightSites, TensorsByName) {
  const std::map<std::string, WeightSite> sites = WeightSites({.family = "llama", .layers = 13});
  EXPECT_EQ(sites.size(), 13u * 7 + 1);
  EXPECT_EQ(sites.at("model.layers.12.mlp.down_proj.weight").site, Site::kDownProjW);
  EXPECT_EQ(sites.at("model.layers.12.mlp.down_proj.weight").layer, 12);
  EXPECT_EQ(sites.at("model.layers.0.self_attn.q_proj.weight").site, Site::kQProjW);
  EXPECT_EQ(sites.at("lm_head.weight").site, Site::kLmHeadW);
  EXPECT_EQ(sites.at("lm_head.weight").layer, -1);
}

TEST(WeightSites, RulesByLayerAndTheLastWins) {
  const Plan plan = Plan::Parse("weights=int8/channel,weights[l1]=int4/group32,down_proj.w=f32");
  EXPECT_EQ(WeightRule(plan, {Site::kQProjW, 0})->format, Format::kInt8);
  EXPECT_EQ(WeightRule(plan, {Site::kQProjW, 1})->format, Format::kInt4);
  EXPECT_EQ(WeightRule(plan, {Site::kDownProjW, 1}), nullptr);
  EXPECT_EQ(WeightRule(plan, {Site::kLmHeadW, -1}), nullptr);
}

TEST(WeightSites, PlansThatMeanNothingHereAreRefused) {
  ModelConfig config{.family = "llama", .layers = 2};
  const auto refused = [&](const char* text, const char* part) {
    EXPECT_THAT([&] { CheckWeightPlan(Plan::Parse(text), config); }, ThrowsMessage<Error>(HasSubstr(part))) << text;
  };
  refused("", "quantizes no weights");
  refused("weights=f32", "quantizes no weights");
  refused("attn_logits=int8/row", "quantizes no weights");
  refused("weights=int8/channel+p99", "other than +mse");
  refused("weights[l2-3]=int8/channel", "layer 2");
  EXPECT_NO_THROW(CheckWeightPlan(Plan::Parse("weights=int8/channel+mse,lm_head.w=int8/channel"), config));
  EXPECT_NO_THROW(CheckWeightPlan(Plan::Parse("int4"), config));
  config.tied_embeddings = true;
  refused("lm_head.w=int8/channel", "is its embedding");
}

}  // namespace
}  // namespace tare
