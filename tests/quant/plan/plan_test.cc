// SPDX-License-Identifier: Apache-2.0
#include "quant/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "quant/base/message.h"

namespace tare::plan_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string Message(std::string_view text) {
  try {
    Plan::Parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string Canonical(std::string_view text) { return Plan::Parse(text).canonical(); }

Format FormatAt(const Plan& plan, Site site, std::optional<int> layer, std::optional<int> head = 0,
                std::optional<int> map = 1) {
  const Rule* rule = plan.Match({site, layer, head, map});
  return rule == nullptr ? Format::kF32 : rule->format;
}

// Valid plans; the fuzzed ones start from these.
const std::vector<std::string> kPlans{
    "",
    "f32",
    "attn_logits=int6/row",
    "q=int8/token,k=int8/token+smooth,probs=u8/block64,v=int8/block64.channel",
    "weights=int4/group64,linear_in=int8/token",
    "attn_logits[l0-3,h2,m1]=int4/head+static+p99.9",
    "weights=int8/channel,weights[l0]=f32,down_proj.w[l31]=int6/group128+mse",
    "probs[l0-3]=u4/row,difference[l4-7]=int8/block32",
    "v=int4/block64.channel+smooth,lm_head.w=int8/tensor,embed=int8/token",
    "q=int4/token+hadamard,k=nvfp4+smooth+hadamard+keep4,attn_logits=int4/row+maxshift+sink+keep4+mse,probs=u4/"
    "row+keep1",
    "weights=int4/group16+zero+hadamard16+mse,linear_in=int8/token+hadamard,cache_k=int4/token+hadamard32",
    "probs=mxfp4+unnormalized,probs[l0]=u8/block64+keep4+unnormalized",
    "attn_logits[m1]=f32+sink,attn_logits[l0]=f32",
    "k=int2/block32.channel+zero+sketch+outliers1+mse+prerotary,v=normal3/group32+hadamard,v[l0]=int4/token+full",
    "head_out[h1-65535]=int8/token,attn_out=int8/group32,layer_out[l2]=int4/token,final_norm=int8/tensor",
};

TEST(Plan, EmptyTextQuantizesNothing) {
  for (const char* text : {"", "  \t\n", "f32", " f32 "}) {
    const Plan plan = Plan::Parse(text);
    EXPECT_TRUE(plan.empty());
    EXPECT_EQ(plan.canonical(), "f32");
    EXPECT_EQ(plan.Match({Site::kQ, 0, 0, 1}), nullptr);
    EXPECT_FALSE(plan.Touches(Site::kQ));
  }
}

TEST(Plan, ParsesEveryPartOfARule) {
  const Plan plan = Plan::Parse("k[l0-3,h2,m1]=int6/token+smooth+static+p99.9");
  ASSERT_EQ(plan.rules().size(), 1u);
  const Rule& rule = plan.rules()[0];
  EXPECT_EQ(rule.name, "k");
  EXPECT_THAT(rule.sites, testing::ElementsAre(Site::kK));
  EXPECT_EQ(rule.selector, (Selector{.layers = {{0, 3}}, .heads = {{2, 2}}, .maps = {{1, 1}}}));
  EXPECT_EQ(rule.format, Format::kInt6);
  EXPECT_EQ(rule.granularity, Granularity{Granularity::Kind::kToken});
  EXPECT_EQ(rule.options, (RuleOptions{.smooth = MeanOver::kFirst, .static_scale = true, .percentile = 99.9}));
  EXPECT_EQ(rule.text, "k[l0-3,h2,m1]=int6/token+smooth+static+p99.9");
}

TEST(Plan, CanonicalHasOneSpelling) {
  EXPECT_EQ(Canonical(" attn_logits [ m2 , l3-3 , h0-1 ] = int6 / row "), "attn_logits[l3,h0-1,m2]=int6/row");
  EXPECT_EQ(Canonical("k=int8/token+p099.90+static+smooth"), "k=int8/token+smooth+static+p99.9");
  EXPECT_EQ(Canonical("k=int4/token+prerotary+outliers01.50+sketch"), "k=int4/token+sketch+outliers1.5+prerotary");
  EXPECT_EQ(Canonical("weights = int4/group64 ,\n linear_in=int8/token"), "weights=int4/group64,linear_in=int8/token");
  EXPECT_EQ(Canonical("q[l00]=f32"), "q[l0]=f32");
  EXPECT_EQ(Canonical("q=int8/token+p100"), "q=int8/token+p100");
}

TEST(Plan, CanonicalIsAFixedPoint) {
  for (const std::string& text : kPlans) EXPECT_EQ(Canonical(Canonical(text)), Canonical(text)) << text;
}

// From sha256sum.
TEST(Plan, HashIsTheStartOfTheCanonicalTextsSha256) {
  EXPECT_EQ(Plan::Parse("").hash(), "16b59eeb3ff6109b");
  EXPECT_EQ(Plan::Parse(" attn_logits = int6/row").hash(), "272b0d7f47249eb0");
}

TEST(Plan, TheLastRuleThatMatchesWins) {
  const Plan plan = Plan::Parse("q=int8/token,q[l1-2]=int6/token,q[l2,h3]=f32,q[m2]=int4/token");
  EXPECT_EQ(FormatAt(plan, Site::kQ, 0), Format::kInt8);
  EXPECT_EQ(FormatAt(plan, Site::kQ, 1), Format::kInt6);
  EXPECT_EQ(FormatAt(plan, Site::kQ, 2, 2), Format::kInt6);
  EXPECT_EQ(FormatAt(plan, Site::kQ, 2, 3), Format::kF32);
  EXPECT_EQ(FormatAt(plan, Site::kQ, 2, 3, 2), Format::kInt4);
  EXPECT_EQ(FormatAt(plan, Site::kQ, 3), Format::kInt8);
  EXPECT_EQ(FormatAt(plan, Site::kK, 0), Format::kF32);
  EXPECT_EQ(FormatAt(plan, Site::kQ, 1, 0, {}), Format::kInt6);  // of both maps: no rule for one of them
}

TEST(Plan, ARuleWithoutSelectorMatchesAnyIndex) {
  const Plan plan = Plan::Parse("embed=int8/token,weights=int8/channel,weights[l0]=int4/channel");
  EXPECT_EQ(FormatAt(plan, Site::kEmbed, {}, {}, {}), Format::kInt8);
  EXPECT_EQ(FormatAt(plan, Site::kUpProjW, 5, {}, {}), Format::kInt8);
  EXPECT_EQ(FormatAt(plan, Site::kUpProjW, 0, {}, {}), Format::kInt4);
}

TEST(Plan, TouchesMeansSomethingIsQuantized) {
  const Plan plan = Plan::Parse("weights[l3]=int8/channel,q=f32");
  for (const Site site : ExpandSites("weights")) EXPECT_TRUE(plan.Touches(site));
  EXPECT_FALSE(plan.Touches(Site::kQ));
  EXPECT_FALSE(plan.Touches(Site::kLmHeadW));
}

TEST(Plan, DuplicatedRulesAreFine) { EXPECT_EQ(Plan::Parse("q=int8/token,q=int8/token").rules().size(), 2u); }

// Where the product that follows sums over them.
TEST(Plan, FormatsWithBlocksOfTheirOwn) {
  const auto granularity = [](const char* text) { return Name(Plan::Parse(text).rules()[0].granularity); };
  EXPECT_EQ(granularity("attn_logits=mxfp4"), "block32");
  EXPECT_EQ(granularity("probs=nvfp4"), "block16");
  EXPECT_EQ(granularity("difference=mxint8"), "block32");
  EXPECT_EQ(granularity("q=mxfp8e4m3"), "group32");
  EXPECT_EQ(granularity("v=mxfp4:rceil"), "block32.channel");
  EXPECT_EQ(granularity("weights=nvfp4"), "group16");
  EXPECT_EQ(granularity("linear_in=mxfp6e3m2:even"), "group32");
  const char* plan = "q=mxfp4+smooth,k[l1]=mxfp4:ceil,v=nf4/channel,q[l0]=f32";
  EXPECT_EQ(Plan::Parse(plan).canonical(), plan);
}

TEST(PlanRanges, AreOfTheFormatAndComeBeforeTheOptions) {
  const Plan plan =
      Plan::Parse("weights = int4/group32 + mse + zero, down_proj.w=int6/channel+full,lm_head.w=int8/tensor+min");
  EXPECT_EQ(plan.canonical(), "weights=int4/group32+zero+mse,down_proj.w=int6/channel+full,lm_head.w=int8/tensor+min");
  EXPECT_EQ(Plan::Parse(plan.canonical()).hash(), plan.hash());
  const Rule& rule = plan.rules().front();
  EXPECT_EQ(rule.format, WithRange(Format::kInt4, CodeRange::kZero));
  EXPECT_TRUE(rule.options.mse);
  EXPECT_EQ(TextOf(rule.format, rule.granularity), "int4/group32+zero");
  EXPECT_EQ(TextOf(Format::kMxFp4, {}), "mxfp4");
}

// However the values are spelled; nothing inside is a mark of the grammar.
TEST(Plan, GridsAreListsOfValues) {
  const Plan plan = Plan::Parse("weights=grid(-1.0  0\t25e-2 1e+20)/group16+mse , q=grid(0 1)/token");
  EXPECT_EQ(plan.canonical(), "weights=grid(-1 0 0.25 1e+20)/group16+mse,q=grid(0 1)/token");
  EXPECT_EQ(Plan::Parse(plan.canonical()).canonical(), plan.canonical());
  EXPECT_NE(Plan::Parse("q=grid(0 1)/token").hash(), Plan::Parse("q=grid(0 2)/token").hash());
  EXPECT_EQ(Name(plan.rules()[1].format), "grid(0 1)");
}

TEST(PlanError, ShowsColumnWhatWasFoundWhatWasExpectedAndACaret) {
  EXPECT_EQ(Message("attn_logits=int7/row"),
            "plan, column 13: got 'int7', expected one of f32 int8 int6 int4 mxfp4 mxfp6e2m3 mxfp6e3m2 mxfp8e4m3 "
            "mxfp8e5m2 mxint8 nvfp4 nvint4 if4 fp8e4m3 fp8e5m2 nf4; the nearest is int8\n"
            "  attn_logits=int7/row\n"
            "              ^");
}

TEST(PlanError, NamesThePlaceOfEveryMistake) {
  struct Case {
    const char* text;
    int column;
    const char* says;
  };
  for (const Case& c : {
           Case{"wieghts=int4/group64", 1, "got 'wieghts', expected a site; the nearest is weights"},
           Case{"zz=int4/group64", 1, "got 'zz', expected one of weights linear_in embed q_proj.w"},
           Case{"int3", 1, "got 'int3', expected a preset or a rule SITE=FORMAT; the nearest is SITE=int3\n"},
           Case{"zz", 1, "got 'zz', expected one of int8 int6 int4 sage1"},
           Case{",q=int8/token", 1, "got ',', expected one of weights"},
           Case{"q=int8/token,,k=f32", 14, "got ',', expected one of weights"},
           Case{"q=int8/token,", 14, "got the end, expected one of weights"},
           Case{"q", 2, "got the end, expected '='"},
           Case{"q int8", 3, "got 'int8', expected '='"},
           Case{"q=", 3, "got the end, expected one of f32 int8 int6 int4"},
           Case{"q=u8/token", 3, "got 'u8', expected one of f32 int8 int6 int4"},
           Case{"difference=f16/row", 12, "got 'f16', expected one of f32 int8 int6 int4 u8 u6 u4"},
           Case{"probs=int8/row", 7, "got 'int8', expected one of f32 u8 u6 u4"},
           Case{"q=mxpf4", 3, "fp8e5m2 nf4; the nearest is mxfp4\n"},
           Case{"q=nvfp8", 3, "; the nearest is nvfp4\n"},
           Case{"q=mxfp4:seil", 3, "mxfp4 mxfp6e2m3"},
           Case{"q=mxfp4:seil", 3,
                "nf4 mxfp4:ties-away mxfp4:ties-zero mxfp4:ceil mxfp4:rceil mxfp4:even; the nearest is mxfp4:ceil\n"},
           Case{"q=ternary/token", 3, "got 'ternary', expected one of f32 int8"},
           Case{"weights=ternry/tensor", 9, "normal3 normal2; the nearest is ternary\n"},
           Case{"q=mxfp4/token", 8, "got a granularity, but mxfp4 has blocks of 32"},
           Case{"q=nvfp4+p99", 9, "got 'p99', but the scales of nvfp4 follow from its blocks"},
           Case{"q=grid(0 1/token", 3, "grid: got no ')' after its values"},
           Case{"k=f32,q=grid(1 0)/token", 9, "grid, value 2: got 0 after 1, expected rising values"},
           Case{"q=grid(levels.txt)/token", 3, "grid, value 1: got 'levels.txt', expected a finite number"},
           Case{"q=grid(0 1)", 12, "got the end, expected '/' and one of tensor head token"},
           Case{"attn_logits[l0]=int4", 21, "; try attn_logits=int4/row"},
           Case{"attn_logits:int4/row", 1, "; '=' follows a site\n"},
           Case{"q=int8/", 8, "got the end, expected one of tensor head token tokens<N> tokens<N>.by8"},
           Case{"weights=int8/head", 14, "got 'head', expected one of tensor channel group<N>"},
           Case{"attn_logits=int8/channel", 18, "got 'channel', expected one of tensor head row"},
           Case{"weights=int8/group0;q=f32", 14, "group<N> (N from 1 to 65536); ',' separates rules\n"},
           Case{"q=f32/token", 6, "got '/', expected ',' or the end"},
           Case{"q=int8/token k=f32", 14, "got 'k', expected '+', ',' or the end"},
           Case{"q=int8/token+", 14, "got the end, expected one of zero smooth smooth<N> smoothall hadamard static"},
           Case{"q=int8/token+keep4", 14,
                "smoothall hadamard static p mse top (with a number: smooth128, hadamard64, p99.9, top256)"},
           Case{"k=int8/token+sink4", 14, "prerotary (with a number: keep4, hadamard64, p99.9, outliers1, top256)"},
           Case{"k=int8/token+keep", 14, "got 'keep', expected one number of keys from 1 to 65535: keep4"},
           Case{"k=int8/token+keep0", 14, "one number of keys"},
           Case{"k=int8/token+keep4+keep5", 20, "one number of keys"},
           Case{"attn_logits=mxfp4+maxshift+mse", 28, "the scales of mxfp4 follow from its blocks"},
           Case{"attn_logits=int8/row+smooth", 22, "got 'smooth', expected one of maxshift sink keep static p mse"},
           Case{"attn_logits=f32+sink+keep4", 22, "got 'keep4', expected sink, as f32 rounds nothing"},
           Case{"attn_logits=f32+mse", 17, "got 'mse', expected sink, as f32 rounds nothing"},
           Case{"attn_logits=f32+sink+sink", 22, "expected each option once"},
           Case{"k=f32+sink", 6, "got '+'"},
           Case{"probs=u8/row+maxshift", 14,
                "got 'maxshift', expected one of keep top unnormalized diff exp rescale sum (with a number: keep4, "
                "top256, diff.f16, exp.bf16, rescale.f16, sum.f16rz)"},
           Case{"difference=int8/row+unnormalized", 21, "got 'unnormalized', expected one of keep p mse"},
           Case{"probs=u8/head", 10, "got 'head', expected one of row block<N> tensor"},
           Case{"difference=int8/tensor", 17, "got 'tensor', expected one of row block<N>"},
           Case{"difference=int8/row+static", 21, "got 'static', expected one of keep p mse"},
           Case{"weights=int8/channel+p99", 22, "got 'p99', expected one of full zero min hadamard mse"},
           Case{"lm_head.w=int8/channel+static", 24, "got 'static', expected one of full zero min hadamard mse"},
           Case{"weights=int4/group32+zero+min", 27, "got 'min', expected one of full, zero, min and mean at most"},
           Case{"weights=int4/group32+full+full", 27, "got 'full', expected one of full, zero, min and mean at most"},
           Case{"weights=int4/group32+zero8", 22, "got 'zero8', expected zero without a number"},
           Case{"weights=mxfp4+zero", 15, "got 'zero' with mxfp4, expected int8, int6, int4, int3 or int2 with it"},
           Case{"weights=nvfp4+min", 15, "got 'min' with nvfp4, expected int8, int6, int4, int3 or int2 with it"},
           Case{"weights=fp8e4m3/channel+zero", 25, "got 'zero' with fp8e4m3, expected int8, int6, int4, int3 or int2"},
           Case{"weights=nf4/group16+full", 21, "got 'full' with nf4, expected int8, int6, int4, int3 or int2 with it"},
           Case{"weights=ternary/tensor+zero", 24, "got 'zero' with ternary, expected int8, int6, int4, int3 or int2"},
           Case{"weights=int4+zero/group32", 13, "got '+', expected '/' and one of tensor channel group<N>"},
           Case{"weights=f32+zero", 12, "got '+', expected ',' or the end"},
           Case{"linear_in=int8/token+zero", 22, "got 'zero', expected one of hadamard static p mse"},
           Case{"q=int4/token+min", 14, "got 'min', expected one of zero smooth smooth<N> smoothall hadamard static"},
           Case{"cache_k=bf16+min", 14, "got 'min' with bf16, expected int8, int6, int4, int3 or int2 with it"},
           Case{"linear_in=int8/token+smooth", 22, "got 'smooth', expected one of hadamard static p mse"},
           Case{"cache=int8/token", 1, "got 'cache', expected a site; the nearest is cache_k"},
           Case{"cache_k=int8", 13, "got the end, expected '/'"},
           Case{"cache_k=mxfp6e2m3", 9,
                "got 'mxfp6e2m3', expected one of f32 int8 int6 int4 int3 int2 mxfp4 mxfp8e4m3 mxfp8e5m2 nvfp4 "
                "nvint4 fp8e4m3 fp8e5m2 nf4 normal4 normal3 normal2 bf16"},
           Case{"cache_k=u8/token", 9,
                "got 'u8', expected one of f32 int8 int6 int4 int3 int2 mxfp4 mxfp8e4m3 mxfp8e5m2 nvfp4 "
                "nvint4 fp8e4m3 fp8e5m2 nf4 normal4 normal3 normal2 bf16"},
           Case{"cache_v=int8/head", 14, "got 'head', expected one of token channel"},
           Case{"cache_v=bf16/token", 13, "got '/', expected '+', ',' or the end"},
           Case{"cache_v=int8/token+prerotary", 20,
                "got 'prerotary', expected one of full zero min mean hadamard static"},
           Case{"cache_k=f32+static", 13, "got 'static', expected one of hadamard prerotary, as f32 rounds nothing"},
           Case{"cache_k=int8/token+hadamard+hadamard", 29, "expected each option once"},
           Case{"weights=int4/channel+hadamard16+hadamard", 33, "expected each option once"},
           Case{"weights=int4/channel+hadamard1", 22, "expected hadamard, or with the channels of a run from 2 to"},
           Case{"cache_k[h0]=f32", 9, "got 'h0', expected an item that begins with one of l "},
           Case{"cache_k[l0,]=f32", 12, "got ']', expected an item that begins with one of l "},
           Case{"q=bf16", 3, "got 'bf16', expected one of f32 int8"},
           Case{"k=int8/token+smooth1", 14, "got 'smooth1', expected smooth without a number"},
           Case{"q=int8/token+smooth+smooth", 21, "expected each option once"},
           Case{"q=int8/token+p", 14, "one percentile from 1 to 100"},
           Case{"q=int8/token+p101", 14, "one percentile from 1 to 100"},
           Case{"q=int8/token+p9.9.9", 14, "one percentile from 1 to 100"},
           Case{"q=int8/token+p99+p98", 18, "one percentile from 1 to 100"},
           Case{"q=int8/token+mse+p99", 18, "mse or a percentile, not both"},
           Case{"q=int8/token+p99+mse", 18, "mse or a percentile, not both"},
           Case{"q[]=f32", 3, "got ']', expected an item that begins with one of lhm"},
           Case{"q[l1=f32", 5, "got '=', expected ',' or ']'"},
           Case{"q[l3-1]=f32", 3, "got 'l3-1', expected l with a number or a range, 0 to 65535"},
           Case{"q[l]=f32", 3, "got 'l', expected l with a number"},
           Case{"q[l-1]=f32", 3, "got 'l-1', expected l with a number"},
           Case{"q[l1-]=f32", 3, "got 'l1-', expected l with a number"},
           Case{"q[l0--3]=f32", 3, "expected l with a number"},
           Case{"q[h65536]=f32", 3, "expected h with a number or a range, 0 to 65535"},
           Case{"q[l99999999999]=f32", 3, "expected l with a number"},
           Case{"q[m0]=f32", 3, "expected m with a number or a range, 1 to 2"},
           Case{"q[m1-3]=f32", 3, "expected m with a number or a range, 1 to 2"},
           Case{"v[m1]=f32", 3, "got 'm1', expected an item that begins with one of lh "},
           Case{"weights[h1]=f32", 9, "got 'h1', expected an item that begins with one of l "},
           Case{"embed[l1]=f32", 6, "got a selector, but this site has no layers, heads, maps or experts"},
       }) {
    EXPECT_THAT(Message(c.text), StartsWith("plan, column " + std::to_string(c.column) + ": ")) << c.text;
    EXPECT_THAT(Message(c.text), HasSubstr(c.says)) << c.text;
  }
}

TEST(Plan, SelectorsAreLists) {
  const Plan plan = Plan::Parse("q=int4/token,q[l31,l0,h2,l5-7,l8,h0,l6]=f32");
  EXPECT_EQ(plan.canonical(), "q=int4/token,q[l0,l5-8,l31,h0,h2]=f32");
  EXPECT_EQ(Plan::Parse(plan.canonical()).canonical(), plan.canonical());
  for (const auto& [layer, head, format] : {std::tuple{0, 0, Format::kF32},
                                            {0, 1, Format::kInt4},
                                            {31, 2, Format::kF32},
                                            {4, 0, Format::kInt4},
                                            {8, 2, Format::kF32},
                                            {9, 2, Format::kInt4}})
    EXPECT_EQ(plan.Match({Site::kQ, layer, head})->format, format) << layer << " " << head;
  EXPECT_EQ(Message("probs[l0,l4]=u8/row,difference[l1-3]=int8/row"), "accepted");
  EXPECT_THAT(Message("probs[l0,l4]=u8/row,difference[l1-3,l4]=int8/row"), HasSubstr("not both"));
}

TEST(Plan, CachesAreSites) {
  for (const char* text :
       {"cache_k=int2/channel+min+hadamard+prerotary,cache_v=int3/token+zero", "cache_k=bf16+hadamard,cache_v=bf16",
        "cache_k=f32+hadamard64+prerotary", "weights=int8/channel,cache_k=int6/token,cache_k[l0,l31]=f32"}) {
    EXPECT_EQ(Plan::Parse(text).canonical(), text);
    EXPECT_TRUE(Plan::Parse(text).NamesCaches()) << text;
  }
  EXPECT_EQ(Plan::Parse("cache_k = int4 / token + prerotary + hadamard").canonical(),
            "cache_k=int4/token+hadamard+prerotary");
  EXPECT_TRUE(Plan::Parse("cache_v=f32").NamesCaches());
  EXPECT_FALSE(Plan::Parse("cache_v=f32").Touches(Site::kCacheV));
  EXPECT_TRUE(Plan::Parse("cache_v=f32+hadamard").Touches(Site::kCacheV));
  EXPECT_FALSE(Plan::Parse("k=int8/token,v=int8/token").NamesCaches());
}

TEST(PlanError, ShowsAPartOfALongTextAndNoControlBytes) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "q=int8/token,";
  const std::string message = Message(text + "\x1b\xff\x01");
  EXPECT_THAT(message, StartsWith("plan, column 1301: got '"));
  EXPECT_LT(message.size(), 1600u);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_THAT(Message(std::string(2000000, ' ')), HasSubstr("got 2000000 bytes, expected at most 1048576"));
}

TEST(PlanError, BothOrdersForOneHeadAreRefused) {
  for (const char* text :
       {"probs=u8/row,difference=int8/row", "difference=int8/row,probs[l3]=u8/row",
        "probs[l0-3,h1]=u8/row,difference[l3,h0-1]=int8/row", "probs[m1]=u8/row,difference=int8/row"}) {
    EXPECT_THAT(Message(text), HasSubstr("probs (late order) or difference (early order), not both")) << text;
  }
  EXPECT_THAT(Message("probs=u8/row, difference=int8/row"), StartsWith("plan, column 15: "));
  for (const char* text : {"probs[l0-3]=u8/row,difference[l4]=int8/row", "probs[h0]=u8/row,difference[h1]=int8/row",
                           "probs=f32,difference=int8/row", "probs=u8/row,difference=f32"}) {
    EXPECT_EQ(Message(text), "accepted") << text;
  }
}

std::string Mutated(std::string text, std::mt19937& random) {
  static constexpr std::string_view kAlphabet = "lhmpqkvuf,[]=/+-. 0123456789intrwoeghsacbd_\n\x80\xff";
  const auto below = [&](size_t n) { return random() % n; };
  for (size_t edits = 1 + below(4); edits > 0; --edits) {
    const size_t at = below(text.size() + 1);
    const char c = below(8) == 0 ? static_cast<char>(below(256)) : kAlphabet[below(kAlphabet.size())];
    switch (below(4)) {
      case 0:
        text.insert(at, 1, c);
        break;
      case 1:
        if (at < text.size()) text[at] = c;
        break;
      case 2:
        text.erase(at, 1 + below(3));
        break;
      default:
        const std::string& other = kPlans[below(kPlans.size())];
        text.insert(at, other.substr(below(other.size() + 1), below(20)));
    }
  }
  return text;
}

// Any bytes either parse to a plan whose canonical text parses to itself, or are refused with an Error that shows a
// place.
TEST(Plan, SurvivesMutations) {
  std::mt19937 random(20240607);
  int accepted = 0;
  for (int i = 0; i < 15000; ++i) {
    const std::string text = Mutated(kPlans[static_cast<size_t>(i) % kPlans.size()], random);
    try {
      const Plan plan = Plan::Parse(text);
      const Plan again = Plan::Parse(plan.canonical());
      ASSERT_EQ(again.canonical(), plan.canonical()) << text;
      ASSERT_EQ(again.rules().size(), plan.rules().size()) << text;
      for (size_t r = 0; r < plan.rules().size(); ++r) {
        ASSERT_EQ(again.rules()[r].sites, plan.rules()[r].sites) << text;
        ASSERT_EQ(again.rules()[r].selector, plan.rules()[r].selector) << text;
        ASSERT_EQ(again.rules()[r].options, plan.rules()[r].options) << text;
      }
      ++accepted;
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), StartsWith("plan, column ")) << text;
      const int column = std::stoi(std::string(error.what()).substr(13));
      ASSERT_GE(column, 1) << text;
      ASSERT_LE(column, static_cast<int>(text.size()) + 1) << text;
    }
  }
  EXPECT_GT(accepted, 250);  // else the mutations only tested the first error
}

}  // namespace
}  // namespace tare::plan_test
