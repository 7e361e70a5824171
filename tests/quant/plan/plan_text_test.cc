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
  EXPECT_EQ(TextOf(WithRange(ListedFormat("grid(-1 0.50 2)"), CodeRange::kMean), {Granularity::Kind::kToken}),
            "grid(-1 0.5 2)/token+mean");
}

TEST(PlanText, ARuleThatWasChangedHasTheTextOfWhatItIs) {
  Rule rule = Plan::Parse("k[l0-3,h1]=normal3/channel+mean+outliers1+prerotary").rules()[0];
  EXPECT_EQ(TextOf(rule), rule.text);
  rule.selector.layers = {{2, 2}};
  rule.options.keep = 4;
  EXPECT_EQ(TextOf(rule), "k[l2,h1]=normal3/channel+mean+keep4+outliers1+prerotary");
  EXPECT_EQ(Plan::Parse(TextOf(rule)).rules()[0].options, rule.options);
}

}  // namespace
}  // namespace tare::plan_text_test
