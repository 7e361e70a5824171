// SPDX-License-Identifier: Apache-2.0
// Which rules go to a prompt's attention, and what is refused beside a cache.
#include "experiments/plan/prompt_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "quant/base/error.h"
#include "tests/support/call.h"

namespace tare::prompt_plan_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Of a differential model of two layers.
PromptPlan Of(const std::string& text, const CachePolicy& policy = {}) {
  ModelSites model{.family = "diffllama", .layers = 2, .maps = 2, .tied_head = false, .heads = {}, .weights = {}};
  for (const Site site : {Site::kQ, Site::kK, Site::kAttnLogits, Site::kProbs}) model.heads[site] = {1, 1, 2, 2};
  model.heads[Site::kV].resize(4);
  model.heads[Site::kDifference].resize(2);
  return PromptPlanOf(Plan::Parse(text), model, policy);
}

TEST(PromptPlan, RulesOfAttentionAreThePromptsAlone) {
  const PromptPlan plan = Of("int8");
  EXPECT_EQ(plan.others.canonical(), "weights=int8/channel,linear_in=int8/token");
  ASSERT_EQ(plan.attention.size(), 2u);
  EXPECT_EQ(plan.attention[1]->attention.q, Format::kInt8);
  EXPECT_EQ(plan.attention[1]->attention.block, 64);
}

TEST(PromptPlan, LayersMayDiffer) {
  const PromptPlan plan =
      Of("cache_k=int4/token,q=int8/token,k=int8/token,difference=u8/block128,v=int4/block128.channel,q[l0]=f32,"
         "k[l0]=f32,v[l0]=f32,difference[l0]=f32,weights=int4/group16");
  EXPECT_EQ(plan.others.canonical(), "cache_k=int4/token,weights=int4/group16");
  ASSERT_EQ(plan.attention.size(), 2u);
  EXPECT_FALSE(plan.attention[0].has_value());
  EXPECT_EQ(plan.attention[1]->attention.order, AttentionPlan::Order::kEarly);
}

TEST(PromptPlan, WithoutRulesOfAttentionThereIsNothing) {
  for (const char* text : {"", "f32", "weights=int8/channel,linear_in=int8/token", "q=f32,cache_v=bf16"}) {
    const PromptPlan plan = Of(text, {.last = 8});
    EXPECT_TRUE(plan.attention.empty()) << text;
  }
}

TEST(PromptPlan, RefusalsNameTheRule) {
  const auto refused = [](const std::string& text, const char* why, const CachePolicy& policy = {}) {
    EXPECT_THAT(Call([&] { Of(text, policy); }), ThrowsMessage<Error>(HasSubstr(why))) << text;
  };
  const std::string qk = "q=int8/token,k=int8/token,", v = "v=int8/block64.channel,probs=u8/block64";
  refused("q=int8/token", "plan rule 'q=int8/token': got k in f32 in layer 0");
  refused(qk + "probs=u8/row,v=int8/channel", "plan rule 'probs=u8/row': got a scale per row");
  refused(qk + "probs=u8/block64,v=int8/channel", "plan rule 'v=int8/channel': got a scale per channel, expected one");
  refused("q=int8/token+smooth,k=int8/token," + v, "plan rule 'q=int8/token+smooth': got +smooth, expected none over");
  refused(qk + v, "got rules for attention beside last=8, which moves", {.last = 8});
  refused(qk + v, "beside keep=h2o/64", {.keep = {.policy = KeepPolicy::kH2o, .keys = 64}});
  refused(qk + v, "beside skip=0.5", {.first = 4, .skip = 0.5f});
  EXPECT_EQ(Of(qk + v, {.first = 4}).attention.size(), 2u);
}

}  // namespace
}  // namespace tare::prompt_plan_test
