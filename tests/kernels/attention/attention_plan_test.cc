// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/random_attention.h"

namespace tare::attention_plan_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(AttentionPlan, EveryFormatOfTheContractPasses) {
  RandomAttention in({});
  using Order = AttentionPlan::Order;
  for (const Format format : {Format::kInt8, Format::kInt6, Format::kInt4}) {
    for (const Format probs : {Format::kU8, Format::kU6, Format::kU4}) {
      for (int block = 64; block <= 1024; block += 64) {
        CheckPlan({.q = format, .k = format, .v = format, .logits = format, .probs = probs, .block = block},
                  in.problem);
        CheckPlan({.q = format, .order = Order::kEarly, .probs = probs, .block = block}, in.problem);
        CheckPlan({.v = format, .order = Order::kEarly, .probs = format, .block = block}, in.problem);
      }
    }
  }
}

TEST(AttentionPlan, WhatTheKernelsCannotExecuteIsRefused) {
  const auto message = [](auto change, const char* text) {
    RandomAttention in({});
    AttentionPlan plan{.order = AttentionPlan::Order::kEarly, .probs = Format::kInt8, .block = 64};
    change(plan, in);
    EXPECT_THAT(Call([&] { CheckPlan(plan, in.problem); }), ThrowsMessage<Error>(HasSubstr(text)));
  };
  message([](AttentionPlan& p, RandomAttention&) { p.block = 96; }, "key blocks of 96");
  message([](AttentionPlan& p, RandomAttention&) { p.block = 2048; }, "key blocks of 2048");
  message([](AttentionPlan& p, RandomAttention&) { p.probs = Format::kF32; }, "difference: got f32");
  message([](AttentionPlan& p, RandomAttention&) { p.order = AttentionPlan::Order::kLate; }, "probs: got int8");
  message([](AttentionPlan& p, RandomAttention&) { p.q = Format::kF32; }, "q: got f32");
  message([](AttentionPlan& p, RandomAttention&) { p.v = Format::kU8; }, "v: got u8");
  message([](AttentionPlan& p, RandomAttention&) { p.logits = Format::kU4; }, "attn_logits: got u4");
  message([](AttentionPlan&, RandomAttention& in) { in.heads[1].q2 = kNoMap; }, "row 1: got one map");
  message([](AttentionPlan&, RandomAttention& in) { in.problem.k.width = in.problem.q.width = 1025; }, "width 1025");
  message([](AttentionPlan&, RandomAttention& in) { in.problem.scale = -1; }, "scale: got -1");
}

}  // namespace
}  // namespace tare::attention_plan_test
