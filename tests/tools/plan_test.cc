// SPDX-License-Identifier: Apache-2.0
// tare plan: with a model, without one, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/call_tare.h"
#include "tests/support/golden.h"

namespace tare::plan_test {
namespace {

using ::testing::HasSubstr;

TEST(PlanTest, WhatRulesMatchInAModel) {
  const Outcome outcome =
      CallTare({"plan", "attn_logits=int6/row,attn_logits[l0]=f32", GoldenFolder("diffllama-mha"), "--json", "-"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["model"], "diffllama-mha");
  EXPECT_EQ(json["sites"][1]["layers"], "0");
  EXPECT_EQ(json["sites"][1]["format"], "f32");
  EXPECT_THAT(json["executed"].get<std::string>(), HasSubstr("q in f32 in layer"));
}

TEST(PlanTest, CachesAreDecoded) {
  const std::string model = GoldenFolder("diffllama-mha");
  const Outcome outcome = CallTare({"plan", "cache_k=int4/token,cache_v=bf16,cache_k[l1]=f32", model});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("cache_k            0,2      -            1  int4/token           decode kernel"));
  EXPECT_THAT(outcome.out, HasSubstr("cache_k            1        -            3  f32"));
  EXPECT_THAT(outcome.out, HasSubstr("cache_v            all      -            2  bf16                 decode kernel"));
  EXPECT_THAT(outcome.out, HasSubstr("simulated  yes\nexecuted   yes"));
  EXPECT_THAT(CallTare({"plan", "cache_k=int4/token,attn_logits=int6/row", model}).out,
              HasSubstr("simulated  no: plan over a cache: got a rule for attn_logits"));
  EXPECT_THAT(CallTare({"plan", "int8", model}).out, testing::Not(HasSubstr("cache")));
}

TEST(PlanTest, OfARecipe) {
  const Outcome outcome = CallTare({"plan", "sage2", GoldenFolder("diffllama-mha")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\nrecipe     sage2: SageAttention2 (arXiv 2411.10958), thu-ml/SageAttention"));
  EXPECT_THAT(outcome.out, HasSubstr("rule 2: k=int8/tokens64.by4x2+smoothall: "));
  EXPECT_THAT(outcome.out, HasSubstr("simulated  yes\nexecuted   no: "));
  const Outcome json = CallTare({"plan", "q=int8/tokens128,k=int8/tokens64+smoothall", "--json", "-"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["recipe"]["name"], "sage1") << "by its rules";
  EXPECT_THAT(CallTare({"plan", "sage"}).err,
              HasSubstr("expected a preset or a rule SITE=FORMAT; the nearest is sage"));
  EXPECT_THAT(CallTare({"plan", "int8"}).out, testing::Not(HasSubstr("recipe")));
}

TEST(PlanTest, WithoutAModel) {
  const Outcome outcome = CallTare({"plan", "int4"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("executed   yes"));
  EXPECT_EQ(CallTare({"plan", "attn_logits[l0]=f32"}).exit_code, 2);
  EXPECT_THAT(CallTare({"plan", "cache_k=int4/row"}).err, HasSubstr("got 'row', expected one of token channel"));
  EXPECT_EQ(CallTare({"plan", "int8", "--stats", "S.h5"}).exit_code, 2);
}

}  // namespace
}  // namespace tare::plan_test
