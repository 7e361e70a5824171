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
  const auto site = WeightSiteOf("model.layers.12.mlp.down_proj.weight");
  ASSERT_TRUE(site);
  EXPECT_EQ(site->site, Site::kDownProjW);
  EXPECT_EQ(site->layer, 12);
  EXPECT_EQ(WeightSiteOf("lm_head.weight")->site, Site::kLmHeadW);
  for (const char* other :
       {"model.embed_tokens.weight", "model.norm.weight", "model.layers.0.input_layernorm.weight", "model.layers.",
        "model.layers.x.mlp.down_proj.weight", "model.layers.-1.mlp.down_proj.weight", "model.layers.3",
        "model.layers.0.self_attn.lambda_q1", "model.layers.99999999999.mlp.up_proj.weight",
        "model.layers.0.self_attn.q_proj.bias", "layers.0.mlp.down_proj.weight"}) {
    EXPECT_FALSE(WeightSiteOf(other)) << other;
  }
}

TEST(WeightSites, RulesByLayerAndTheLastWins) {
  const Plan plan = Plan::Parse("weights=int8/channel,weights[l1]=int4/group32,down_proj.w=f32");
  EXPECT_EQ(WeightRule(plan, {Site::kQProjW, 0})->format, Format::kInt8);
  EXPECT_EQ(WeightRule(plan, {Site::kQProjW, 1})->format, Format::kInt4);
  EXPECT_EQ(WeightRule(plan, {Site::kDownProjW, 1}), nullptr);
  EXPECT_EQ(WeightRule(plan, {Site::kLmHeadW, -1}), nullptr);
}

TEST(WeightSites, PlansThatMeanNothingHereAreRefused) {
  ModelConfig config;
  config.layers = 2;
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
