// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/cache_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"

namespace tare {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(CachePlan, NamesComeBack) {
  for (const char* text :
       {"cache_k=int4/token,cache_v=int8/token", "cache_k=f32,cache_v=bf16",
        "cache_k=int6/token,cache_v=f32,first=4,last=128", "cache_k=int4/channel+hadamard,cache_v=bf16+hadamard"})
    EXPECT_EQ(Name(ParseCachePlan(text)), text);
  EXPECT_EQ(Name(ParseCachePlan("last=3,cache_v=int4/token,last=0")), "cache_k=f32,cache_v=int4/token");
}

TEST(CachePlan, WhatIsNotNamedIsF32) { EXPECT_EQ(Name(ParseCachePlan("")), "cache_k=f32,cache_v=f32"); }

TEST(CachePlan, RefusalsNameTheRule) {
  const auto refused = [](const char* text, const char* message) {
    EXPECT_THAT([&] { ParseCachePlan(text); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  refused("k=int4/token", "cache, 'k=int4/token': got 'k', expected cache_k");
  refused("cache_k=int4", "cache, 'cache_k=int4': got 'int4', expected f32, bf16, or int8, int6 or int4 with /token");
  refused("cache_k=int4/head", "got 'int4/head'");
  refused("cache_k=f32/token", "got 'f32/token'");
  refused("cache_k=f32,", "cache, '': got ''");
  refused("cache_v", "cache, 'cache_v': got ''");
  refused("first=-1", "cache, 'first=-1': got '-1', expected a number of tokens");
  refused("last=1e3", "got '1e3'");
}

}  // namespace
}  // namespace tare
