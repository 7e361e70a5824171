// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/cache_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "quant/base/message.h"
#include "tests/support/call.h"

namespace tare::cache_plan_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

CachePolicy Of(std::initializer_list<const char*> rules) {
  CachePolicy policy;
  for (const char* rule : rules) EXPECT_TRUE(ReadPolicy(rule, policy)) << rule;
  return policy;
}

TEST(CachePolicy, TextsRoundTripAndTheLastCounts) {
  EXPECT_EQ(TextOf(CachePolicy{}), "");
  EXPECT_EQ(TextOf(Of({"skip=0.001", "keep=difference/64kB", "last=128", "first=4"})),
            ",first=4,last=128,keep=difference/64kB,skip=0.001");
  EXPECT_EQ(TextOf(Of({"keep=h2o/64", "keep=all", "skip=0.1", "skip=0", "last=3", "last=0"})), "");
  EXPECT_EQ(TextOf(Of({"keep=h2o/64", "keep=window/3MB"})), ",keep=window/3MB");
  EXPECT_EQ(TextOf(Of({"keep=h2o/64kB", "keep=window/9"})), ",keep=window/9");
  EXPECT_EQ(TextOf(Of({"keep=snapkv/2000kB"})), ",keep=snapkv/2MB");
  EXPECT_EQ(TextOf(Of({" first = 4 "})), ",first=4");
}

TEST(CachePolicy, RulesOfOtherNamesAreLeftAlone) {
  CachePolicy policy;
  for (const char* rule : {"cache_k=f32", "", "=", "firsts=1", "first[l0]=1", "fir st=1"})
    EXPECT_FALSE(ReadPolicy(rule, policy)) << rule;
  EXPECT_EQ(TextOf(policy), "");
}

TEST(CachePolicy, RefusalsNameTheRule) {
  const auto refused = [](const std::string& rule, const char* message) {
    CachePolicy policy;
    EXPECT_THAT(Call([&] { ReadPolicy(rule, policy); }), ThrowsMessage<Error>(HasSubstr(message)));
  };
  refused("first=-1", "cache, 'first=-1': got '-1', expected a number of tokens");
  refused("first", "cache, 'first': got '', expected a number of tokens");
  refused("last=1e3", "got '1e3'");
  refused("last=99999999999999999999", "expected a number of tokens");
  refused("first=4611686018427387904", "expected a number of tokens, at most 1000000000");
  refused("last=1000000001", "expected a number of tokens, at most 1000000000");
  refused("keep=lru/64",
          "cache, 'keep=lru/64': got 'lru/64', expected all, or one of window, h2o, difference, snapkv, "
          "snapkv-difference with a budget");
  for (const char* budget : {"", "0", "-5", "1e3", "64TB", "kB", "99999999999999999999", "9999999999GB"})
    refused(std::string("keep=h2o/") + budget, "got a budget of '");
  refused("keep=h2o", "got a budget of ''");
  refused("skip=1", "cache, 'skip=1': got '1', expected a number of 0 or more below 1");
  refused("skip=nan", "got 'nan'");
}

TEST(CachePlan, NamesRoundTrip) {
  for (const char* text :
       {"cache_k=int4/token,cache_v=int8/token", "cache_k=f32,cache_v=bf16",
        "cache_k=int6/token,cache_v=f32,first=4,last=128", "cache_k=int4/channel+hadamard,cache_v=bf16+hadamard",
        "cache_k=int4/channel+hadamard+prerotary,cache_v=f32",
        "cache_k=int2/channel+min+prerotary,cache_v=int3/token+zero+hadamard,first=4",
        "cache_k=int2/block32.channel+min+prerotary,cache_v=int2/group32+min,last=4",
        "cache_k=int4/token,cache_v=int4/group64+hadamard,keep=window/256", "cache_k=f32,cache_v=f32,keep=window/256",
        "cache_k=int4/token,cache_v=int4/token,first=1,keep=difference/64kB,skip=0.001",
        "cache_k=f32,cache_v=f32,keep=h2o/3MB", "cache_k=f32,cache_v=f32,keep=snapkv-difference/2GB",
        "cache_k=int4/token,cache_k[l0,l31]=f32,cache_k[l2-5]=bf16,cache_v=int4/token,first=4"})
    EXPECT_EQ(Name(ParseCachePlan(text)), text);
  EXPECT_EQ(Name(ParseCachePlan("keep=h2o/64,keep=all,skip=0.1,skip=0")), "cache_k=f32,cache_v=f32");
  EXPECT_EQ(Name(ParseCachePlan("keep=h2o/2000kB")), "cache_k=f32,cache_v=f32,keep=h2o/2MB");
  EXPECT_EQ(Name(ParseCachePlan("last=3,cache_v=int4/token,last=0")), "cache_k=f32,cache_v=int4/token");
}

TEST(CachePlan, UnnamedSitesAreF32) {
  EXPECT_EQ(Name(ParseCachePlan("")), "cache_k=f32,cache_v=f32");
  EXPECT_EQ(Name(CachePlan{}), "cache_k=f32,cache_v=f32");
}

// One rule of all layers first, then those after it; what it overrides is gone.
TEST(CachePlan, OneSpelling) {
  EXPECT_EQ(Name(ParseCachePlan("cache_v[l1]=int8/token, first=4 ,cache_k[ l31, l0 ] = f32")),
            "cache_k=f32,cache_k[l0,l31]=f32,cache_v=f32,cache_v[l1]=int8/token,first=4");
  EXPECT_EQ(Name(ParseCachePlan("cache_k[l0]=bf16,cache_k=int8/token,cache_k[l1]=f32,cache_k=int4/token")),
            "cache_k=int4/token,cache_v=f32");
}

TEST(CachePlan, TheLastMatchHoldsInALayer) {
  const CachePlan plan = ParseCachePlan(
      "cache_k=int4/channel+hadamard,cache_v=int8/token,cache_k[l0,l3]=f32,cache_v[l3]=bf16,first=2,last=7");
  const CacheRules first = plan.OfLayer(0), second = plan.OfLayer(1), last = plan.OfLayer(3);
  EXPECT_EQ(first.k.format, Format::kF32);
  EXPECT_FALSE(first.k.ByChannel() || first.k.hadamard);
  EXPECT_EQ(second.k.format, Format::kInt4);
  EXPECT_TRUE(second.k.ByChannel() && second.k.hadamard);
  EXPECT_EQ(second.v.format, Format::kInt8);
  EXPECT_FALSE(second.v.ByChannel() || second.v.hadamard);
  EXPECT_EQ(last.v.format, Format::kBf16);
  EXPECT_EQ(last.first, 2);
  EXPECT_EQ(last.last, 7);
  const CacheRules kivi = ParseCachePlan("cache_k=int2/channel+min,cache_v=int3/token+zero").OfLayer(0);
  EXPECT_EQ(kivi.k.format, WithRange(Format::kInt2, CodeRange::kMin));
  EXPECT_TRUE(kivi.k.ByChannel() && kivi.k.HasMinima() && kivi.v.HasMinima());
  EXPECT_EQ(kivi.v.format, WithRange(Format::kInt3, CodeRange::kZero));
  const CacheRules runs = ParseCachePlan("cache_k=int2/block32.channel+min,cache_v=int2/group64").OfLayer(0);
  EXPECT_TRUE(runs.k.ByChannel() && runs.k.InRuns() && runs.v.InRuns() && !runs.v.ByChannel());
  EXPECT_EQ(runs.k.granularity.n, 32);
  EXPECT_EQ(runs.v.granularity.n, 64);
  EXPECT_EQ(ParseCachePlan("cache_k[l1]=f32+prerotary").OfLayer(1).keys, KeptKeys::kBeforeRotary);
  EXPECT_EQ(ParseCachePlan("cache_k[l1]=f32+prerotary").OfLayer(0).keys, KeptKeys::kAfterRotary);
}

TEST(CachePlan, OfAPlan) {
  const auto name = [](const char* plan, const std::optional<CachePlan>& base) {
    const std::optional<CachePlan> caches = CachePlanOf(Plan::Parse(plan), base);
    return caches ? Name(*caches) : "none";
  };
  EXPECT_EQ(name("q=int8/token", {}), "none");
  EXPECT_EQ(name("q=int8/token", ParseCachePlan("first=4")), "cache_k=f32,cache_v=f32,first=4");
  EXPECT_EQ(name("q=int8/token,cache_v=f32", {}), "cache_k=f32,cache_v=f32");
  EXPECT_EQ(name("cache_v=int4/token,q=int8/token,cache_k[l1]=f32", ParseCachePlan("cache_k=int8/token,last=9")),
            "cache_k=int8/token,cache_k[l1]=f32,cache_v=int4/token,last=9");
  EXPECT_THAT(Call([] { CachePlanOf(Plan::Parse("cache_k=int8/channel"), ParseCachePlan("keep=h2o/64")); }),
              ThrowsMessage<Error>(HasSubstr("got keep= beside scales per channel")));
}

// A rule without statistics is refused when a layer is asked for.
TEST(CachePlan, StaticScalesAreOfLayers) {
  CachePlan plan = ParseCachePlan("cache_k=fp8e4m3/tensor+static,cache_v=grid(-1 -0.2 0 0.3 1)/token+mean");
  EXPECT_EQ(Name(plan), "cache_k=fp8e4m3/tensor+static,cache_v=grid(-1 -0.2 0 0.3 1)/token+mean");
  plan.clips[{Site::kCacheK, 1}] = 3.5f;
  EXPECT_EQ(plan.OfLayer(1).k.clip, 3.5f);
  EXPECT_FALSE(plan.OfLayer(1).v.clip);
  EXPECT_THAT(Call([&] { plan.OfLayer(0); }), ThrowsMessage<Error>(HasSubstr("got +static without statistics")));
}

TEST(CachePlan, RefusalsNameTheRule) {
  const auto refused = [](const char* text, const char* message) {
    EXPECT_THAT(Call([&] { ParseCachePlan(text); }), ThrowsMessage<Error>(HasSubstr(message)));
  };
  refused("k=int4/token", "cache, 'k=int4/token': got 'k', expected cache_k");
  refused("int8", "cache, 'int8': got 'int8', expected cache_k");
  refused("first[l0]=4", "cache, 'first[l0]=4': got 'first', expected cache_k");
  refused("first=-1", "cache, 'first=-1': got '-1', expected a number of tokens");
  refused("cache_k=int4", "plan, column 13: got the end, expected '/' and one of token channel");
  refused("cache_k=int4/head", "got 'head', expected one of token channel");
  refused("cache_k=f32/token", "got '/'");
  refused("cache_k=mxint8/token",
          "got 'mxint8', expected one of f32 int8 int6 int4 int3 int2 mxfp4 mxfp8e4m3 mxfp8e5m2 nvfp4 "
          "nvint4 fp8e4m3 fp8e5m2 nf4 normal4 normal3 normal2 bf16");
  refused("cache_k=fp8e4m3:floor/token", "got 'fp8e4m3:floor', expected one of");
  refused("cache_k=grid(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17)/token", "expected one of");
  refused("cache_k[l2]=fp8e4m3/tensor", "got a scale per tensor, expected one per token, or a static one");
  refused("cache_v=int8/token+static",
          "got +static with a scale per token, expected one per tensor; try tensor+static");
  refused("cache_v=int8/tensor+static+hadamard", "got +static with +hadamard");
  refused("cache_v=normal4/tensor+static", "got normal4 with a clip");
  refused("cache_k=bf16+min", "got 'min'");
  refused("cache_k=f32+zero", "got 'zero'");
  refused("cache_k=int2/channel+min+zero", "got 'zero'");
  refused("cache_k=int2/group32+min", "got 'group32', expected one of token channel block<N>.channel");
  refused("cache_v=int2/block32.channel+min", "got 'block32.channel', expected one of token channel group<N>");
  refused("cache_k[l2]=int2/block48.channel+min",
          "plan rule 'cache_k[l2]=int2/block48.channel+min': got a scale per block48.channel, expected token, channel, "
          "block32.channel or block64.channel; try block32.channel");
  refused("cache_v=int2/group128",
          "plan rule 'cache_v=int2/group128': got a scale per group128, expected token, channel, group32 or group64; "
          "try group32");
  refused("cache_k=int2/channel+min,keep=h2o/64", "got keep= beside scales per channel");
  refused("cache_k=int2/block32.channel+min,keep=h2o/64", "got keep= beside scales per channel");
  refused("cache_k=f32,", "cache, '': got ''");
  refused("cache_k=f32,,first=3", "cache, '': got ''");
  refused("cache_v", "plan, column 8: got the end, expected '='");
  refused("cache_k[l0=f32,first=4", "plan, column 11: got '='");
  refused("cache_k[h1]=f32", "got 'h1', expected an item that begins with one of l ");
  refused("cache_v=int8/token+prerotary", "got 'prerotary', expected one of full zero min mean hadamard static");
  refused("cache_v=bf16+static", "got bf16 with +static, expected a format with scales");
  refused("cache_k=int4/channel,keep=h2o/64", "got keep= beside scales per channel");
  refused("cache_k[l2]=int4/token+prerotary,keep=h2o/64", "or keys before rotary");
  EXPECT_EQ(Name(ParseCachePlan("cache_k=int4/channel,keep=h2o/64,cache_k=int4/token")),
            "cache_k=int4/token,cache_v=f32,keep=h2o/64");
}

}  // namespace

}  // namespace tare::cache_plan_test
