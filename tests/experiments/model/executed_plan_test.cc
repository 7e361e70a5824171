// SPDX-License-Identifier: Apache-2.0
// What plans the integer kernels take, and what they say to the others.
#include "experiments/model/executed_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "quant/base/error.h"

namespace tare {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const std::string kQk = "q=int8/token,k=int6/token+smooth,";

ExecutedPlan Of(const std::string& text) { return ExecutedPlanOf(Plan::Parse(text), 0, 4); }

TEST(ExecutedPlan, Late) {
  const ExecutedPlan plan =
      Of("q=int8/token,k=int6/token,probs=u6/block128,v=int4/block128.channel,attn_logits=int6/row");
  EXPECT_EQ(plan.attention.q, Format::kInt8);
  EXPECT_EQ(plan.attention.k, Format::kInt6);
  EXPECT_FALSE(plan.smooth_q);
  EXPECT_FALSE(plan.smooth_k);
  EXPECT_EQ(plan.attention.order, AttentionPlan::Order::kLate);
  EXPECT_EQ(plan.attention.probs, Format::kU6);
  EXPECT_EQ(plan.attention.block, 128);
  EXPECT_EQ(plan.attention.v, Format::kInt4);
  EXPECT_EQ(plan.attention.v_scale, AttentionPlan::ValueScale::kBlock);
  EXPECT_EQ(plan.attention.logits, Format::kInt6);
}

TEST(ExecutedPlan, EarlyWithAChannelScale) {
  const ExecutedPlan plan = Of(kQk + "difference=int8/block64,v=int8/channel+smooth");
  EXPECT_EQ(plan.attention.order, AttentionPlan::Order::kEarly);
  EXPECT_EQ(plan.attention.block, 64);
  EXPECT_EQ(plan.attention.v_scale, AttentionPlan::ValueScale::kSequence);
  EXPECT_TRUE(plan.smooth_k);
  EXPECT_TRUE(plan.smooth_v);
  EXPECT_EQ(plan.attention.logits, Format::kF32);
}

TEST(ExecutedPlan, SmoothedQueriesAndAZeroPoint) {
  const ExecutedPlan plan = Of("q=int4/token+smooth,k=int4/token,difference=u6/block64,v=int8/block64.channel");
  EXPECT_TRUE(plan.smooth_q);
  EXPECT_FALSE(plan.smooth_k);
  EXPECT_EQ(plan.attention.probs, Format::kU6);
}

TEST(ExecutedPlan, RefusesWhatHasNoKernel) {
  const auto message = [](const std::string& text, const char* expected) {
    EXPECT_THAT([&] { Of(text); }, ThrowsMessage<Error>(HasSubstr(expected))) << text;
  };
  message("k=int8/token,probs=u8/block64,v=int8/channel", "q is f32");
  message(kQk + "probs=u8/block64,v=int8/channel,attn_logits=int6/row", "without +smooth");
  message(kQk + "v=int8/channel", "probs is f32");
  message(kQk + "probs=u8/block64", "v is f32");
  message("q=int8/head,k=int8/token,probs=u8/block64,v=int8/channel", "a scale a token");
  message(kQk + "probs=u8/row,v=int8/channel", "a scale a block");
  message(kQk + "probs=u8/block96,v=int8/channel", "in steps of 64");
  message(kQk + "probs=u8/block64,v=int8/block128.channel", "same blocks");
  message(kQk + "probs=u8/block64+maxshift,v=int8/channel", "no options");
  message(kQk + "probs=u8/block64,v=int8/channel,attn_logits=int6/head", "a scale a row");
  message(kQk + "probs=u8/block64,v=int8/channel,q[h1]=int4/token", "differs between heads");
}

}  // namespace
}  // namespace tare
