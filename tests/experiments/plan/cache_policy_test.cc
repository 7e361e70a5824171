// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/cache_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "quant/base/error.h"

namespace tare {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

CachePolicy Of(std::initializer_list<const char*> rules) {
  CachePolicy policy;
  for (const char* rule : rules) EXPECT_TRUE(ReadPolicy(rule, policy)) << rule;
  return policy;
}

TEST(CachePolicy, TextsComeBackAndTheLastCounts) {
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
    EXPECT_THAT([&] { ReadPolicy(rule, policy); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  refused("first=-1", "cache, 'first=-1': got '-1', expected a number of tokens");
  refused("first", "cache, 'first': got '', expected a number of tokens");
  refused("last=1e3", "got '1e3'");
  refused("last=99999999999999999999", "expected a number of tokens");
  refused("keep=lru/64",
          "cache, 'keep=lru/64': got 'lru/64', expected all, or one of window, h2o, difference, snapkv, "
          "snapkv-difference with a budget");
  for (const char* budget : {"", "0", "-5", "1e3", "64TB", "kB", "99999999999999999999", "9999999999GB"})
    refused(std::string("keep=h2o/") + budget, "got a budget of '");
  refused("keep=h2o", "got a budget of ''");
  refused("skip=1", "cache, 'skip=1': got '1', expected a number of 0 or more below 1");
  refused("skip=nan", "got 'nan'");
}

}  // namespace
}  // namespace tare
