// SPDX-License-Identifier: Apache-2.0
// Texts of rules that a program changed; plan_test.cc tests those of whole plans.
#include <gtest/gtest.h>

#include "quant/plan/plan.h"

namespace tare::plan_text_test {
namespace {

TEST(PlanText, FormatsAreAsARuleHasThem) {
  EXPECT_EQ(TextOf(Format::kInt8, {Granularity::Kind::kToken}), "int8/token");
  EXPECT_EQ(TextOf(WithRange(Format::kInt4, CodeRange::kZero), {Granularity::Kind::kGroup, 32}), "int4/group32+zero");
  EXPECT_EQ(TextOf(Format::kNvFp4, {Granularity::Kind::kGroup, 16}), "nvfp4");
  EXPECT_EQ(TextOf(WithRange(*ParseFormat("grid(-1 0.50 2)"), CodeRange::kMean), {Granularity::Kind::kToken}),
            "grid(-1 0.5 2)/token+mean");
}

TEST(PlanText, ARuleThatWasChangedHasTheTextOfWhatItIs) {
  Rule rule = Plan::Parse("k[l0-3,h1]=normal3/channel+mean+outliers1+prerotary").rules()[0];
  EXPECT_EQ(PlaceText(rule) + "=" + LevelText(rule), rule.text);
  rule.selector.layers = {{2, 2}, {4, 6}, {3, 3}, {2, 2}, {0, 0}};
  rule.options.keep = 4;
  const Plan plan = Plan().Append(rule);
  EXPECT_EQ(plan.canonical(), "k[l0,l2-6,h1]=normal3/channel+mean+keep4+outliers1+prerotary");
  EXPECT_EQ(Plan::Parse(plan.canonical()).rules()[0].options, rule.options);
}

TEST(PlanText, PlansAreMadeOfOthersRules) {
  const Plan plan = Plan::Parse("q=int8/token,weights=int4/channel,q[l1]=f32");
  const Plan of_q = plan.Select([](const Rule& rule) { return rule.name == "q"; });
  EXPECT_EQ(of_q.canonical(), "q=int8/token,q[l1]=f32");
  EXPECT_EQ(Plan().Append(of_q).Append(RuleFor(Site::kQ)).canonical(), "q=int8/token,q[l1]=f32,q=f32");
  EXPECT_EQ(Plan(plan).Append(of_q).hash(), Plan::Parse(plan.canonical() + "," + of_q.canonical()).hash());
  EXPECT_EQ(Plan().canonical(), "f32");
}

}  // namespace
}  // namespace tare::plan_text_test
