// SPDX-License-Identifier: Apache-2.0
// Plans of integer attention: what is refused, and what means of a prefix are and do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/attention/integer/executed_attention.h"
#include "quant/base/aligned.h"
#include "quant/base/message.h"
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
  message([](AttentionPlan& p, RandomAttention&) { p.prob_scale = AttentionPlan::ProbScale::kRow; }, "a scale per row");
  message([](AttentionPlan& p, RandomAttention&) { p.unnormalized = true; }, "try the late order");
  message([](AttentionPlan& p, RandomAttention&) { p.top = 128; }, "top: got 128, expected at most the 127 of int8");
  message([](AttentionPlan& p, RandomAttention&) { p.top = std::nanf(""); }, "top: got nan");
  message(
      [](AttentionPlan& p, RandomAttention& in) {
        p.order = AttentionPlan::Order::kLate, p.probs = Format::kU8, p.unnormalized = true, p.v_mean = in.v.data();
      },
      "v: got a mean for maps that are not normalized");
  message([](AttentionPlan&, RandomAttention& in) { in.heads[1].q2 = kNoMap; }, "row 1: got one map");
  message([](AttentionPlan&, RandomAttention& in) { in.problem.k.width = in.problem.q.width = 1025; }, "width 1025");
  message([](AttentionPlan&, RandomAttention& in) { in.problem.scale = -1; }, "scale: got -1");
}

TEST(PrefixMean, TheMeanIsOfTheFirst64TokensAlone) {
  for (const int64_t tokens : {1, 3, 64, 100}) {
    constexpr int kHeads = 2, kWidth = 3, kStride = 9;
    std::vector<float> x(tokens * kStride), got(kHeads * kWidth);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int i = 0; i < kStride; ++i) x[t * kStride + i] = static_cast<float>(t < 64 ? (t + 1) * (i + 1) : 1000);
    }
    MeanOfPrefix(HeadsView<const float>{x.data(), tokens, kHeads, kWidth, kStride, 4}, got.data());
    const int64_t n = tokens < 64 ? tokens : 64;
    for (int head = 0; head < kHeads; ++head) {
      for (int i = 0; i < kWidth; ++i)
        EXPECT_FLOAT_EQ(got[head * kWidth + i], static_cast<float>((n + 1) * (4 * head + i + 1)) / 2) << tokens;
    }
  }
}

TEST(PrefixMean, OfAsManyTokensAsAreAsked) {
  const std::vector<float> x{1, 2, 6, 11};
  const HeadsView<const float> view{x.data(), 4, 1, 1, 1, 0};
  for (const auto& [tokens, mean] : {std::pair<int64_t, float>(1, 1), {3, 3}, {4, 5}, {9, 5}}) {
    float got = 0;
    MeanOfPrefix(view, &got, tokens);
    EXPECT_EQ(got, mean) << tokens;
  }
}

std::vector<float> MeanOf(HeadsView<const float> x) {
  std::vector<float> mean(static_cast<size_t>(x.heads) * x.width);
  MeanOfPrefix(x, mean.data());
  return mean;
}

// Cosine of attention with Q and K in four bits to the double reference.
double CosineInInt4(RandomAttention& c, const float* q_mean, const float* k_mean) {
  AttentionPlan plan{.q = Format::kInt4, .k = Format::kInt4, .block = 64, .q_mean = q_mean, .k_mean = k_mean};
  AlignedBuffer<std::byte> workspace(WorkspaceBytes(plan, c.problem));
  ExecutedAttention(plan, c.problem, workspace.span());
  const std::vector<double> want = ReferenceAttentionDouble(c.problem);
  double product = 0, got_squares = 0, want_squares = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    product += c.out[i] * want[i];
    got_squares += double{c.out[i]} * c.out[i];
    want_squares += want[i] * want[i];
  }
  return product / std::sqrt(got_squares * want_squares);
}

// What all keys have in common takes the codes of the rest, unless it is subtracted: the figures asked of INT4 are a
// cosine of 0.97 on Gaussian data, kept within 0.005 under an offset of 10 on some channels.
TEST(PrefixMean, FourBitsSurviveAnOffsetOfTheKeys) {
  RandomAttention c(
      {.family = HeadKind::kV1, .heads = 2, .kv = 2, .queries = 100, .keys = 300, .d = 128, .v_width = 256});
  const double plain = CosineInInt4(c, nullptr, nullptr);
  EXPECT_GT(plain, 0.97);
  for (size_t i = 0; i < c.k.size(); ++i) c.k[i] += i % 128 % 16 == 3 ? 10.0f : 0.0f;
  EXPECT_LT(CosineInInt4(c, nullptr, nullptr), plain - 0.05);
  EXPECT_GT(CosineInInt4(c, nullptr, MeanOf(c.problem.k).data()), plain - 0.005);
}

// Q's mean is subtracted, too. It does change the logits: its product with each key is computed separately.
TEST(PrefixMean, FourBitsSurviveAnOffsetOfTheQueries) {
  RandomAttention c(
      {.family = HeadKind::kV1, .heads = 2, .kv = 2, .queries = 300, .keys = 300, .d = 128, .v_width = 256});
  const double plain = CosineInInt4(c, nullptr, nullptr);
  for (size_t i = 0; i < c.q.size(); ++i) c.q[i] += i % 128 % 16 == 3 ? 10.0f : 0.0f;
  const double without = CosineInInt4(c, nullptr, nullptr);
  const double with = CosineInInt4(c, MeanOf(c.problem.q).data(), MeanOf(c.problem.k).data());
  RecordProperty("cosines", std::to_string(plain) + " " + std::to_string(without) + " " + std::to_string(with));
  EXPECT_LT(without, 0.97);
  EXPECT_GT(with, plain);
}

}  // namespace
}  // namespace tare::attention_plan_test
