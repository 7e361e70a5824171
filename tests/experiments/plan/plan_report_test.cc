// SPDX-License-Identifier: Apache-2.0
// What a plan's rules match, site by site, and why a plan cannot be carried out.
#include "experiments/plan/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/plan_run.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/support/call.h"

namespace tare::plan_report_test {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

// Three layers; four heads of logits, of maps 1 1 2 2; down_proj.w in rows of 688, the others of 256.
ModelSites Toy() {
  ModelSites model{.family = "toy", .layers = 3, .maps = 2, .tied_head = true, .heads = {}, .weights = {}};
  for (const Site site : {Site::kQ, Site::kK, Site::kAttnLogits, Site::kProbs}) model.heads[site] = {1, 1, 2, 2};
  for (const Site site : {Site::kV, Site::kDifference, Site::kHeadOut}) model.heads[site].resize(2);
  for (const Site site : ExpandSites("weights")) {
    for (int layer = 0; layer < 3; ++layer)
      model.weights[{site, layer}] = {.in = site == Site::kDownProjW ? 688 : 256, .format = {}, .group = 0};
  }
  return model;
}

Json Of(const std::string& plan) { return PlanJson(Plan::Parse(plan), Toy(), "toy-1"); }

TEST(PlanReport, ShowsTheRuleOfEverySite) {
  const Json json = Of("attn_logits=int4/head,attn_logits[l1,m2]=f32,attn_logits[h0]=int6/row,attn_logits[l7]=f32");
  EXPECT_EQ(json["schema"], "tare.plan/1");
  EXPECT_EQ(json["rules"][0], Json({{"rule", "attn_logits=int4/head"}, {"places", 7}, {"overridden", 5}}));
  EXPECT_EQ(json["rules"][1]["places"], 2);
  EXPECT_EQ(json["rules"][2]["places"], 3);
  const auto row = [](const char* layers, const char* heads, int rule, const char* format) {
    return Json{layers, heads, rule, format};
  };
  Json rows = Json::array();
  for (const Json& s : json["sites"]) {
    EXPECT_EQ(s["site"], "attn_logits");
    rows.push_back({s["layers"], s["heads"], s["rule"], s["format"]});
  }
  EXPECT_EQ(rows, Json::array({row("0,2", "1-3", 1, "int4"), row("1", "1", 1, "int4"), row("1", "2-3", 2, "f32"),
                               row("all", "0", 3, "int6")}));
  EXPECT_THAT(PlanText(json),
              HasSubstr("  rule 1: attn_logits=int4/head: 7 tensors, and 5 where a later rule holds\n"));
  EXPECT_THAT(PlanText(json), HasSubstr("  rule 4: attn_logits[l7]=f32: matches nothing of this model\n"));
  EXPECT_THAT(PlanText(Of("q=int8/token,q=int6/token")), HasSubstr("rule 1: q=int8/token: holds nowhere: later rules"));
  EXPECT_THAT(PlanText(Of("v=int8/token")), HasSubstr("\nv                  all      all          1  int8/token\n"));
}

TEST(PlanReport, ShowsWhichModesWorkOrWhyNot) {
  const Json whole = Of("weights=int4/group16,q_proj.in=int8/token");
  EXPECT_TRUE(whole["simulated"].is_null() && whole["executed"].is_null() && whole["stored"].is_null());
  for (const Json& sites : {whole["sites"], Of("weights=int4/group16,q_proj.in=mxfp4")["sites"]}) {
    for (const Json& s : sites)
      EXPECT_EQ(s["executed"], s["site"] == "q_proj.w" || s["site"] == "q_proj.in" ? "integer kernel" : "f32 product");
  }
  for (const Json& s : Of("weights=int4/group16,q_proj.in=fp8e4m3/token")["sites"])
    EXPECT_EQ(s["executed"], s["site"] == "q_proj.in" ? "simulated" : "f32 product");
  const Json no_kernel = Of("layer_out=int8/token");
  EXPECT_EQ(no_kernel["sites"][0]["executed"], "no kernel");
  EXPECT_FALSE(no_kernel.contains("stored"));
  EXPECT_THAT(no_kernel["executed"].get<std::string>(), HasSubstr("got a site without an integer kernel"));
  EXPECT_THAT(PlanText(no_kernel), HasSubstr("\nsimulated  yes\nexecuted   no: plan rule 'layer_out=int8/token': got"));
  EXPECT_THAT(PlanText(Of("weights=int4/group64")),
              HasSubstr("\nexecuted   no: for the same reason\nin a file  no: for the"));
  EXPECT_TRUE(Of("attn_logits=int8/head")["lookahead"]);
  EXPECT_FALSE(Of("attn_logits=int8/row")["lookahead"]);
  EXPECT_THAT(PlanText(Of("f32")), HasSubstr("f32        embed q_proj.w k_proj.w"));
}

TEST(PlanReport, WithoutAModelOnlyPlansThatSelectNothing) {
  const Plan plan = Plan::Parse("int8");
  const Json json = PlanJson(plan, AnyModel(plan), "any");
  EXPECT_TRUE(json["executed"].is_null());
  EXPECT_EQ(json["sites"].size(), 54u);  // 17 weights, their inputs, q, k, v and probs
  EXPECT_THAT(Call([] { AnyModel(Plan::Parse("q=int8/token,q[l3]=f32")); }),
              ThrowsMessage<Error>(StartsWith("plan rule 'q[l3]=f32': got layers, heads or maps and no model")));
}

// The widest of its rules keeps a blank before the next column.
TEST(PlanReport, ARecipeThatIsExecuted) {
  const Plan plan = Plan::Parse("int-flash");
  const std::string text = PlanText(PlanJson(plan, AnyModel(plan), "any"));
  EXPECT_THAT(text, testing::HasSubstr("  u8/row+top127+unnormalized integer kernel\n"));
  EXPECT_THAT(text, testing::HasSubstr("\nexecuted   yes\n"));
}

}  // namespace
}  // namespace tare::plan_report_test

namespace tare::key_value_bits_test {
namespace {

// Two layers of four heads of 32 channels.
ModelSites Sites() {
  return ModelSitesOf(ModelConfig{.family = "diffllama", .layers = 2, .heads = 4, .kv_heads = 4, .head_dim = 32});
}

void ExpectBits(const char* plan, double keys, double values) {
  const std::optional<KeyValueBits> bits = KeyValueBitsOf(Plan::Parse(plan), Plan::Parse(plan), Sites());
  ASSERT_TRUE(bits.has_value()) << plan;
  EXPECT_DOUBLE_EQ(bits->keys, keys) << plan;
  EXPECT_DOUBLE_EQ(bits->values, values) << plan;
}

TEST(KeyValueBits, CountCodesAndWhatTheyShare) {
  ExpectBits("k=int4/token", 4 + 16.0 / 32, 16);
  ExpectBits("k=int2/block32.channel+min,v=int2/group32+min", 2 + 32.0 / 32, 2 + 32.0 / 32);  // KIVI
  ExpectBits("v=int3/group16+zero", 16, 3 + (16.0 + 3) / 16);
  ExpectBits("v=int4/group64", 16, 4 + 16.0 / 32);                       // a group ends with its head
  ExpectBits("v=int4/group20+outliers1", 16, 4 + 2 * (16 + 32) / 32.0);  // 20 and 12
  ExpectBits("k=normal2/token+mean", 3, 16);
  ExpectBits("k=grid(-2 -1 0 1 2)/channel+mean,v=grid(-1 0 1)/token", 3, 2 + 16.0 / 32);  // of an index
  ExpectBits("k=int2/channel+min", 2, 16);                                                // a scale of a whole text
  ExpectBits("k=mxfp4,v=nvfp4", 4 + 8.0 / 32, 4 + 8.0 / 16);
  ExpectBits("k=normal2/token+hadamard+sketch", 2 + 0.5 + 1 + 16.0 / 32, 16);
  ExpectBits("k=int2/channel+min+outliers1", 2 + 0.01 * 32, 16);
  ExpectBits("k=int8/tokens64,v=int8/tokens64.by8", 8 + 16.0 / 2048, 8 + 8 * 16.0 / 2048);
  ExpectBits("v=int2/token+outliers1", 16, 2 + 0.5 + 32.0 / 32);  // one of 32
}

TEST(KeyValueBits, AreTheMeanOverLayersAndHeads) {
  ExpectBits("k=int4/channel,k[l1]=int8/channel", 6, 16);
  ExpectBits("v[h0]=int4/channel", 16, 16 - 12.0 / 4);
  ExpectBits("k=int4/channel,k[l0]=f32", 10, 16);
}

// Tare's caches hold scales in 32 bits, and minima and zero points, too; those of groups and blocks in 16.
TEST(KeyValueBits, OfCaches) {
  ExpectBits("cache_k=int8/token,cache_v=bf16", 8 + 32.0 / 32, 16);
  ExpectBits("cache_k=int4/channel,cache_v[l0]=int4/token", 4 + 32.0 / 64, (16 + 5) / 2.0);
  ExpectBits("k=int3/token,cache_k=int8/token,cache_v=f32,v=int4/channel", 9, 4);  // the cache holds int8
  ExpectBits("cache_k=int2/channel+min,cache_v=int2/token+min", 2 + 64.0 / 64, 2 + 64.0 / 32);
  ExpectBits("cache_k=int3/channel+zero,cache_v=int3/token+full", 3 + 64.0 / 64, 3 + 32.0 / 32);
  ExpectBits("cache_k=int2/block32.channel+min,cache_v=int2/group32+min", 3, 3);
  ExpectBits("cache_k=int2/block64.channel+min,cache_v=int4/group64", 2.5, 4.5);  // heads have 32 channels
  ExpectBits("cache_k=int3/block32.channel,cache_v=int3/group32+zero", 3.5, 4);
  const std::optional<KeyValueBits> beside =
      KeyValueBitsOf(Plan::Parse("v=int4/channel"), Plan::Parse("cache_k=int8/token,cache_v=f32"), Sites());
  EXPECT_DOUBLE_EQ(beside.value().keys, 9);
  EXPECT_DOUBLE_EQ(beside.value().values, 4);
}

TEST(KeyValueBits, NoneWithoutARuleOrAWidth) {
  const Plan none, others = Plan::Parse("weights=int4/channel,q=int8/token"), keys = Plan::Parse("k=int4/token");
  EXPECT_FALSE(KeyValueBitsOf(others, none, Sites()));
  EXPECT_FALSE(KeyValueBitsOf(keys, none, ModelSites{}));
  EXPECT_EQ(JsonText(ToJson(KeyValueBits{.keys = 3, .values = 2.5})), R"({"key_bits":3.0,"value_bits":2.5})");
}

}  // namespace
}  // namespace tare::key_value_bits_test
