// SPDX-License-Identifier: Apache-2.0
// Indices, and texts of rules that a program changed; plan_test.cc tests whole plans; grids from files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "quant/base/message.h"
#include "quant/plan/plan.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::plan_rules_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

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

TEST(PlanText, WhatRecipesAddIsChecked) {
  constexpr std::pair<const char*, const char*> kRefused[] = {
      {"q=int8/token+smooth+smoothall", "column 21: got 'smoothall', expected one of smooth, smooth<N> and smoothall"},
      {"q=int8/token+smoothall+smoothall", "column 24: got 'smoothall', expected each option once"},
      {"k=int8/token+smooth128", "column 14: got 'smooth128', expected smooth without a number"},
      {"q=int8/token+smooth1", "expected one smooth, or with a number of queries from 2 to 65535: smooth128"},
      {"q=int8/token+smooth+smooth2", "column 21: got 'smooth2', expected one smooth, or with a number of queries"},
      {"q=int8/token+smooth2+smoothall", "column 22: got 'smoothall', expected one of smooth, smooth<N> and smoothall"},
      {"q=int8/token+smoothall8", "column 14: got 'smoothall8', expected smoothall without a number"},
      {"head_out=int8/token+full", "column 21: got 'full', expected one of zero static p mse"},
      {"probs=nvfp4/block64", "column 12: got a granularity, but nvfp4 has blocks of 16; expected row, or none\n"},
      {"probs=nvfp4:t1/row", "column 15: got a granularity, but nvfp4:t1 has blocks of 16\n"},
      {"probs=mxfp4/row", "column 12: got a granularity, but mxfp4 has blocks of 32\n"},
      {"v=nvfp4/row", "column 8: got a granularity, but nvfp4 has blocks of 16\n"},
      {"q=int8/token+top", "column 14: got 'top', expected one value from 1 to 65535: top256"},
      {"q=int8/token+top0.5", "expected one value from 1 to 65535: top256"},
      {"q=int8/token+top2e2", "expected one value from 1 to 65535: top256"},
      {"q=int8/token+top2+top2", "column 19: got 'top2', expected one value from 1 to 65535: top256"},
      {"q=mxfp4+top2", "got 'top2', but the scales of mxfp4 follow from its blocks"},
      {"head_out=int8/tokens64", "got 'tokens64', expected one of tensor head token"},
      {"q=int8/tokens4.by8", "column 8: got 'tokens4.by8', expected a multiple of 8 tokens: tokens32.by8"},
      {"q=int8/tokens64.by2", "got 'tokens64.by2', expected one of tensor head token tokens<N>"},
      {"int9", "got 'int9', expected a preset or a rule SITE=FORMAT; the nearest is int8\n"},
      {"nvpf4", "got 'nvpf4', expected a preset or a rule SITE=FORMAT; the nearest is SITE=nvfp4\n"},
      {"atn_logits", "expected a preset or a rule SITE=FORMAT; the nearest is attn_logits\n"},
      {"attn_logits=f32+", "column 17: got the end, expected sink, as f32 rounds nothing"},
      {"probs=f32+smooth", "column 11: got 'smooth', expected one of diff exp rescale sum, as f32 rounds nothing"},
      {"cache_v=f32+zero", "column 13: got 'zero', expected hadamard, as f32 rounds nothing"}};
  for (const auto& [plan, message] : kRefused)
    EXPECT_THAT([&] { Plan::Parse(plan); }, testing::ThrowsMessage<Error>(testing::HasSubstr(message))) << plan;
}

TEST(PlanText, OptionsOfRecipes) {
  EXPECT_EQ(Plan::Parse("k=fp8e4m3/tokens64.by4x2+top2.250+static+smoothall+hadamard").canonical(),
            "k=fp8e4m3/tokens64.by4x2+smoothall+hadamard+static+top2.25");
  EXPECT_EQ(Plan::Parse("probs=u8/row+unnormalized+top127").rules()[0].options,
            (RuleOptions{.top = 127, .unnormalized = true}));
  for (const char* canonical : {"q=nvfp4:t1+smooth128+hadamard", "probs=nvfp4/row+keep4+unnormalized",
                                "difference=nvint4/row", "q=int8/tensor+zero+smooth16", "probs=u8/tensor"})
    EXPECT_EQ(Plan::Parse(canonical).canonical(), canonical);
  EXPECT_EQ(Plan::Parse("q=int4/token+smooth8").rules()[0].options,
            (RuleOptions{.smooth = MeanOver::kEach, .smooth_each = 8}));
}

TEST(Selects, AllOrThoseInARange) {
  EXPECT_TRUE(Selects({}, 7));
  EXPECT_TRUE(Selects({}, std::nullopt));
  const IndexRanges ranges{{0, 0}, {3, 5}};
  for (const int inside : {0, 3, 4, 5}) EXPECT_TRUE(Selects(ranges, inside)) << inside;
  for (const int outside : {1, 2, 6}) EXPECT_FALSE(Selects(ranges, outside)) << outside;
  EXPECT_FALSE(Selects(ranges, std::nullopt));
}

TEST(RuleOptions, RunsOfARotationAreOfTheOption) {
  const Plan plan = Plan::Parse("down_proj.w=int4/channel + mse+hadamard16,down_proj.in=int8/token+hadamard");
  EXPECT_EQ(plan.canonical(), "down_proj.w=int4/channel+hadamard16+mse,down_proj.in=int8/token+hadamard");
  EXPECT_EQ(plan.rules()[0].options.hadamard, RotatedRuns{16});
  EXPECT_EQ(plan.rules()[1].options.hadamard, RotatedRuns{});
  EXPECT_EQ(plan.rules()[0].options.Rotation(64)->run(), 16);
  EXPECT_EQ(plan.rules()[1].options.Rotation(64)->run(), 64);
  EXPECT_EQ(plan.rules()[1].options.Rotation(16), plan.rules()[0].options.Rotation(16)) << "one run, all of the row";
  EXPECT_EQ(RuleOptions{}.Rotation(64), nullptr);
}

TEST(Plan, HasStaticScalesWhereARuleQuantizesWithThem) {
  EXPECT_TRUE(Plan::Parse("q=int8/token,k=int8/tensor+static").HasStaticScales());
  EXPECT_FALSE(Plan::Parse("q=int8/token,k=int8/token+smooth").HasStaticScales());
  EXPECT_FALSE(Plan::Parse("").HasStaticScales());
}

TEST(SplitRules, AtCommasOutsideBrackets) {
  EXPECT_THAT(SplitRules("q,attn_logits[l0,m1],k"), testing::ElementsAre("q", "attn_logits[l0,m1]", "k"));
  EXPECT_THAT(SplitRules("q[l0,"), testing::ElementsAre("q[l0,"));
  EXPECT_THAT(SplitRules("q],k,"), testing::ElementsAre("q]", "k", ""));
  EXPECT_TRUE(SplitRules("").empty());
}

TEST(GridFiles, AFileStandsForItsValues) {
  const TemporaryFolder folder;
  PutFile(folder / "levels, 1+2=3.txt", "-1\n0.25\n1\n");
  const std::string path = (folder / "levels, 1+2=3.txt").string();
  const std::string made = WithGridFiles(Formatted("weights=grid({})/group16+mse,q=grid({})/token", path, path));
  EXPECT_EQ(made, "weights=grid(-1 0.25 1)/group16+mse,q=grid(-1 0.25 1)/token");
  EXPECT_EQ(Plan::Parse(made).canonical(), made);
  PutFile(folder / "levels, 1+2=3.txt", "-1 0.5 1");  // another content, another plan
  EXPECT_NE(Plan::Parse(WithGridFiles(Formatted("q=grid({})/token", path))).hash(),
            Plan::Parse("q=grid(-1 0.25 1)/token").hash());
}

TEST(GridFiles, OtherTextIsUnchanged) {
  for (const char* text : {"", "int8", "q=mxfp4,k=int8/token", "q=grid(-1 0 1)/token", "q=grid( nan 1)/token",
                           "q=grid(0 1/token", "q=grid()/token"})
    EXPECT_EQ(WithGridFiles(text), text);
}

TEST(GridFiles, InvalidGridsAreRefusedWithTheirFile) {
  const TemporaryFolder folder;
  const std::string path = (folder / "f").string();
  const auto refused = [&](const std::string& content, const std::string& says) {
    PutFile(folder / "f", content);
    EXPECT_THAT(Call([&] { WithGridFiles(Formatted("q=grid({})/token", path)); }),
                ThrowsMessage<Error>(HasSubstr(path + says)));
  };
  refused("1 0", ", value 2: got 0 after 1, expected rising values, each once; try sorting them");
  refused("", ": got 0 values, expected 2 to 256");
  refused(std::string(70000, ' '), ": got 70000 bytes, expected the 2 to 256 numbers of a grid");
  EXPECT_THAT(Call([&] { WithGridFiles("q=grid(no/such.txt)/token"); }),
              ThrowsMessage<Error>(HasSubstr("no/such.txt: no such file")));
}

}  // namespace
}  // namespace tare::plan_rules_test
