// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/decoding_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "quant/base/error.h"

namespace tare {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(DecodingPlan, NamesComeBack) {
  for (const char* text :
       {"cache_k=int4/token,cache_v=int8/token", "cache_k=f32,cache_v=bf16",
        "cache_k=int6/token,cache_v=f32,first=4,last=128", "cache_k=int4/channel+hadamard,cache_v=bf16+hadamard",
        "cache_k=int4/channel+hadamard+prerotary,cache_v=f32", "cache_k=f32,cache_v=f32,keep=window/256",
        "cache_k=int4/token,cache_v=int4/token,first=1,keep=difference/64kB,skip=0.001",
        "cache_k=f32,cache_v=f32,keep=h2o/3MB", "cache_k=f32,cache_v=f32,keep=snapkv-difference/2GB"})
    EXPECT_EQ(Name(ParseDecodingPlan(text)), text);
  EXPECT_EQ(Name(ParseDecodingPlan("keep=h2o/64,keep=all,skip=0.1,skip=0")), "cache_k=f32,cache_v=f32");
  EXPECT_EQ(Name(ParseDecodingPlan("keep=h2o/2000kB")), "cache_k=f32,cache_v=f32,keep=h2o/2MB");
  EXPECT_EQ(Name(ParseDecodingPlan("last=3,cache_v=int4/token,last=0")), "cache_k=f32,cache_v=int4/token");
}

TEST(DecodingPlan, WhatIsNotNamedIsF32) { EXPECT_EQ(Name(ParseDecodingPlan("")), "cache_k=f32,cache_v=f32"); }

TEST(DecodingPlan, RefusalsNameTheRule) {
  const auto refused = [](const char* text, const char* message) {
    EXPECT_THAT([&] { ParseDecodingPlan(text); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  refused("k=int4/token", "cache, 'k=int4/token': got 'k', expected cache_k");
  refused("cache_k=int4", "cache, 'cache_k=int4': got 'int4', expected f32, bf16, or int8, int6 or int4 with /token");
  refused("cache_k=int4/head", "got 'int4/head'");
  refused("cache_k=f32/token", "got 'f32/token'");
  refused("cache_k=f32,", "cache, '': got ''");
  refused("cache_v", "cache, 'cache_v': got ''");
  refused("first=-1", "cache, 'first=-1': got '-1', expected a number of tokens");
  refused("last=1e3", "got '1e3'");
  refused("keep=lru/64", "cache, 'keep=lru/64': got 'lru/64', expected all, or window, h2o, difference, snapkv or");
  for (const char* budget : {"", "0", "-5", "1e3", "64TB", "kB", "99999999999999999999", "9999999999GB"})
    refused(("keep=h2o/" + std::string(budget)).c_str(), "got a budget of '");
  refused("keep=h2o", "got a budget of ''");
  refused("skip=1", "cache, 'skip=1': got '1', expected a number of 0 or more below 1");
  refused("skip=nan", "got 'nan'");
  refused("cache_k=int4/channel,keep=h2o/64", "got keep= beside scales per channel");
  refused("cache_k=int4/token+prerotary,keep=h2o/64", "or keys before rotary");
}

}  // namespace
}  // namespace tare
