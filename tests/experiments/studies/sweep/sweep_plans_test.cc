// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/support/call.h"

namespace tare::sweep_plans_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::string> Texts(const SweepQuestion& question) {
  std::vector<std::string> texts;
  for (const Plan& plan : PlansOf(question)) texts.push_back(plan.canonical());
  return texts;
}

TEST(SweepPlans, BitsAreFormatsAndEachPlanIsThereOnce) {
  EXPECT_THAT(Texts({.bits = {16, 8}, .granularities = {"row", "tensor"}}),
              ElementsAre("f32", "attn_logits=int8/row", "attn_logits=int8/tensor"));
  EXPECT_THAT(Texts({.site = "probs", .base = "v=int8/token", .bits = {6, 16}}),
              ElementsAre("v=int8/token,probs=u6/row", "f32"));
  for (const int bits : {0, -8, 5, 32})
    EXPECT_THAT(Call([&] { PlansOf({.bits = {bits}}); }),
                ThrowsMessage<Error>(HasSubstr(Formatted("--bits: got {}", bits))));
}

TEST(SweepPlans, FormatsByTheirNames) {
  EXPECT_THAT(Texts({.formats = {"f32", "int4", "mxfp4", "nf4"}, .granularities = {"row", "head"}}),
              ElementsAre("f32", "attn_logits=int4/row", "attn_logits=mxfp4", "attn_logits=nf4/row",
                          "attn_logits=int4/head", "attn_logits=nf4/head"));
  EXPECT_THAT(Texts({.site = "weights", .formats = {"int4", "int4+zero"}, .granularities = {"group32", "channel+mse"}}),
              ElementsAre("weights=int4/group32", "weights=int4/group32+zero", "weights=int4/channel+mse",
                          "weights=int4/channel+zero+mse"));
  EXPECT_THAT(Call([] { PlansOf({.formats = {"mxpf4"}}); }), ThrowsMessage<Error>(HasSubstr("the nearest is mxfp4")));
  EXPECT_THAT(Call([] { PlansOf({.formats = {"nf4", "nf4"}}); }),
              ThrowsMessage<Error>(HasSubstr("--formats: got nf4 twice")));
}

TEST(SweepPlans, SitesAreTogetherOrEachAlone) {
  SweepQuestion question{.site = "q,attn_logits[l0,m1]", .bits = {16, 4}, .granularities = {"head"}};
  EXPECT_THAT(Texts(question), ElementsAre("f32", "q=int4/head,attn_logits[l0,m1]=int4/head"));
  question.sites = SweepSites::kEach;
  EXPECT_THAT(Texts(question), ElementsAre("f32", "q=int4/head", "attn_logits[l0,m1]=int4/head"));
}

TEST(SweepPlans, AGroupIsEachOfItsSites) {
  SweepQuestion question{.site = "linear_in[l1]", .sites = SweepSites::kEach, .bits = {8}, .granularities = {"token"}};
  EXPECT_EQ(Texts(question).size(), ExpandSites("linear_in").size());
  question.lacking = {Site::kQProjIn, Site::kGateProjIn};
  const std::vector<std::string> plans = Texts(question);
  EXPECT_EQ(plans.size(), ExpandSites("linear_in").size() - 2);
  EXPECT_EQ(plans[0], "k_proj.in[l1]=int8/token");
  question.site = "gate_proj.in";  // asked for by its name, it is refused by its name
  EXPECT_THAT(Texts(question), ElementsAre("gate_proj.in=int8/token"));
}

std::string heard;

// Finer of two that are as near: heads of what has none are tokens. One site alone says what it wants.
TEST(SweepPlans, SitesTakeTheNearestGranularityThatTheyHave) {
  OnNotice([](const std::string& text) { heard += text + "\n"; });
  EXPECT_THAT(Texts({.site = "q,attn_logits,probs,q_proj.w", .bits = {4}}),
              ElementsAre("q=int4/token,attn_logits=int4/row,probs=u4/row,q_proj.w=int4/channel"));
  EXPECT_THAT(heard, HasSubstr("granularity row: token, the nearest available, is used for q\n"));
  EXPECT_THAT(heard, HasSubstr("granularity row: channel, the nearest available, is used for q_proj.w\n"));
  EXPECT_THAT(Texts({.site = "probs,layer_out", .bits = {4}, .granularities = {"tensor", "head", "block64"}}),
              ElementsAre("probs=u4/row,layer_out=int4/tensor", "probs=u4/row,layer_out=int4/token",
                          "probs=u4/block64,layer_out=int4/group64"));
  EXPECT_THAT(Texts({.site = "q,k,v,probs", .bits = {4}, .granularities = {"block64"}}),
              ElementsAre("q=int4/token,k=int4/token,v=int4/block64.channel,probs=u4/block64"))
      << "as kernels take them";
  EXPECT_THAT(Texts({.site = "probs,cache_k,cache_v", .bits = {4}, .granularities = {"block32"}}),
              ElementsAre("probs=u4/block32,cache_k=int4/token,cache_v=int4/token"));
  EXPECT_THAT(
      Texts({.site = "cache_k,cache_v", .bits = {4}, .granularities = {"block32.channel", "group32"}}),
      ElementsAre("cache_k=int4/block32.channel,cache_v=int4/token", "cache_k=int4/token,cache_v=int4/group32"));
  EXPECT_THAT(Texts({.site = "q,layer_out", .bits = {4}, .granularities = {"row+p99"}}),
              ElementsAre("q=int4/token+p99,layer_out=int4/token+p99"));
  EXPECT_THAT(Call([] { PlansOf({.site = "q", .bits = {4}}); }), ThrowsMessage<Error>(HasSubstr("got 'row'")));
  OnNotice(nullptr);
}

TEST(SweepPlans, ARowSaysWhatThePlanQuantizes) {
  const PlanRow row = RowOf(Plan::Parse("attn_logits[l0]=f32,v=int8/token,q[l0-1]=int4/tensor+static,k=int4/token"));
  EXPECT_EQ(row.site, "v,q[l0-1],k");
  EXPECT_EQ(row.format, "int8,int4");
  EXPECT_EQ(row.granularity, "token,tensor+static");
  EXPECT_EQ(row.bits, 4);
  EXPECT_EQ(RowOf(Plan::Parse("f32")).bits, 16);
  EXPECT_EQ(RowOf(Plan::Parse("f32")).site, "");
}

TEST(SweepPlans, PlansAsTheyAreGiven) {
  const std::vector<Plan> plans = PlansOf({.plans = {"f32", "q=int4/token,k=int8/token"}});
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[1].canonical(), "q=int4/token,k=int8/token");
  EXPECT_THAT(Call([] { PlansOf({.plans = {"v=int4/token", "v=int4/token"}}); }),
              ThrowsMessage<Error>("--plan: got v=int4/token twice, expected each once"));
}

}  // namespace
}  // namespace tare::sweep_plans_test
