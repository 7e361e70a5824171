// SPDX-License-Identifier: Apache-2.0
// What a plan's rules match, site by site, and why a plan cannot be carried out.
#include "experiments/plan/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
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
  EXPECT_THAT(PlanText(Of("v=int8/token")), HasSubstr("\nv                 all      all           1  int8/token\n"));
}

TEST(PlanReport, ShowsWhichModesWorkOrWhyNot) {
  const Json whole = Of("weights=int4/group16,q_proj.in=int8/token");
  EXPECT_TRUE(whole["simulated"].is_null() && whole["executed"].is_null() && whole["stored"].is_null());
  for (const Json& s : whole["sites"])
    EXPECT_EQ(s["executed"], s["site"] == "q_proj.w" || s["site"] == "q_proj.in" ? "integer kernel" : "f32 product");
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
  EXPECT_EQ(json["sites"].size(), 30u);  // 13 weights, their inputs, q, k, v and probs
  EXPECT_THAT(Call([] { AnyModel(Plan::Parse("q=int8/token,q[l3]=f32")); }),
              ThrowsMessage<Error>(StartsWith("plan rule 'q[l3]=f32': got layers, heads or maps and no model")));
}

}  // namespace
}  // namespace tare::plan_report_test
