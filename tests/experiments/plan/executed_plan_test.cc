// SPDX-License-Identifier: Apache-2.0
// Which plans the integer kernels accept, and their messages for others.
// Rotations around the integer kernels, against the same kernels on rows that the double rotation made.
#include "experiments/plan/resolved_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "quant/base/message.h"
#include "quant/format/hadamard.h"
#include "tests/support/call.h"
#include "tests/support/executed.h"
#include "tests/support/whole_references.h"

namespace tare::executed_plan_test {
namespace {

using testing::ThrowsMessage;

const std::string kQk = "q=int8/token,k=int6/token+smooth,";

// The plan of attention in a differential model of one layer.
ExecutedPlan Of(const std::string& text) {
  ModelSites model{.family = "diffllama", .layers = 1, .maps = 2, .tied_head = false, .heads = {}, .weights = {}};
  for (const Site site : {Site::kQ, Site::kK, Site::kAttnLogits, Site::kProbs}) model.heads[site] = {1, 1, 2, 2};
  model.heads[Site::kV].resize(4);
  model.heads[Site::kDifference].resize(2);
  return ResolvedPlan(Plan::Parse(text), model, Carrying::kExecuted).attention().front().value();
}

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
  EXPECT_EQ(plan.smooth_q, MeanOver::kFirst);
  EXPECT_FALSE(plan.smooth_k);
  EXPECT_EQ(Of("q=int4/token+smoothall,k=int4/token,difference=u6/block64,v=int8/block64.channel").smooth_q,
            MeanOver::kAll);
  EXPECT_EQ(plan.attention.probs, Format::kU6);
}

TEST(ExecutedPlan, MapsPerRow) {
  const ExecutedPlan recipe = Of("int-flash");
  EXPECT_EQ(recipe.attention.prob_scale, AttentionPlan::ProbScale::kRow);
  EXPECT_EQ(recipe.attention.top, 127);
  EXPECT_TRUE(recipe.attention.unnormalized);
  EXPECT_EQ(recipe.attention.v_scale, AttentionPlan::ValueScale::kHead);
  EXPECT_EQ(recipe.attention.block, AttentionPlan{}.block);
  const ExecutedPlan by_block = Of("q=int8/token,k=int8/token,probs=u8/row,v=int8/block128.channel+smooth");
  EXPECT_EQ(by_block.attention.block, 128);
  EXPECT_EQ(by_block.attention.top, 0);
  EXPECT_FALSE(by_block.attention.unnormalized);
  const ExecutedPlan of_tokens = Of("q=int8/tokens32.by8,k=int8/tokens64,probs=u8/block64+unnormalized,v=int8/head");
  EXPECT_EQ(of_tokens.scale_q, (Granularity{Granularity::Kind::kTokensBy8, 32}));
  EXPECT_EQ(of_tokens.scale_k, (Granularity{Granularity::Kind::kTokens, 64}));
  EXPECT_EQ(of_tokens.attention.block, 64);
}

TEST(ExecutedPlan, RotationsOfQueriesAndKeysAreTheSame) {
  const std::string rest = ",probs=u8/block64,v=int4/block64.channel+hadamard16";
  const ExecutedPlan plan = Of("q=int4/token+hadamard,k=int4/token+smooth+hadamard" + rest);
  EXPECT_EQ(plan.rotated_qk, RotatedRuns{});
  EXPECT_EQ(plan.rotated_v, RotatedRuns{16});
  EXPECT_TRUE(plan.smooth_k);
  for (const char* other : {"k=int4/token", "k=int4/token+hadamard8"})
    EXPECT_THAT(Call([&] { Of(std::string("q=int4/token+hadamard,") + other + rest); }),
                ThrowsMessage<Error>(
                    "plan rule 'q=int4/token+hadamard': got a rotation that q and k do not share, expected the same "
                    "+hadamard for both, as products of rotated rows need; try simulating it, as tare eval does "
                    "without --executed"));
}

TEST(ExecutedPlan, RefusesWhatHasNoKernel) {
  const auto refused = [](const std::string& text, const std::string& rule, const char* got, const char* expected) {
    const char* const attempt = !std::string_view(got).starts_with("blocks") ? kSimulate
                                : rule.starts_with("v")                      ? "block64.channel"
                                                                             : "block64";
    const std::string message = Formatted("plan rule '{}': got {}, expected {}; try {}", rule, got, expected, attempt);
    EXPECT_THAT(Call([&] { Of(text); }), ThrowsMessage<Error>(message)) << text;
  };
  const std::string k = "k=int6/token+smooth";
  const char* const all = "all four, as q=int8/token,k=int8/token,probs=u8/block64,v=int8/block64.channel";
  refused("k=int8/token,probs=u8/block64,v=int8/channel", "k=int8/token", "q in f32 in layer 0", all);
  refused("q=int8/token,probs=u8/block64,v=int8/channel", "q=int8/token", "k in f32 in layer 0", all);
  refused(kQk + "v=int8/channel", "q=int8/token", "probs in f32 in layer 0", all);
  refused(kQk + "probs=u8/block64", "q=int8/token", "v in f32 in layer 0", all);
  refused("q=int8/head,k=int8/token,probs=u8/block64,v=int8/channel", "q=int8/head", "a scale per head",
          "one per token or tokens<N>");
  refused(kQk + "difference=u8/row,v=int8/channel", "difference=u8/row", "a scale per row", "one per block<N>");
  refused(kQk + "probs=u8/row+keep4+unnormalized,v=int8/channel", "probs=u8/row+keep4+unnormalized",
          "+keep4+unnormalized", "no option but +top and +unnormalized");
  refused(kQk + "probs=u8/row+unnormalized,v=int8/head+smooth", "v=int8/head+smooth",
          "+smooth with +unnormalized maps, whose rows do not sum to 1", "v without it");
  refused(kQk + "probs=u8/row,v=int8/block32.channel", "v=int8/block32.channel", "blocks of 32 keys",
          "64 to 1024, in steps of 64");
  refused(kQk + "probs=u8/row,v=int8/token", "v=int8/token", "a scale per token",
          "one per head, channel or block<N>.channel");
  refused(kQk + "probs=u8/block96,v=int8/channel", "probs=u8/block96", "blocks of 96 keys",
          "64 to 1024, in steps of 64");
  refused(kQk + "probs=u8/block64,v=int8/block128.channel", "v=int8/block128.channel", "a scale per block128.channel",
          "one per head or channel, or per block64.channel as in probs or difference");
  refused(kQk + "probs=u8/block64,v=int8/channel,attn_logits=int6/row", k,
          "+smooth with a rule for attn_logits, whose codes it would shift", "k without it");
  refused(kQk + "probs=u8/block64,v=int8/channel,attn_logits=int6/head", "attn_logits=int6/head", "a scale per head",
          "one per row");
  refused("q=int8/token+p99,k=int8/token,probs=u8/block64,v=int8/channel", "q=int8/token+p99", "+p99",
          "no option but +smooth and +hadamard");
  refused("q=int8/token+smooth128,k=int8/token,probs=u8/block64,v=int8/channel", "q=int8/token+smooth128", "+smooth128",
          "no option but +smooth and +hadamard");
  refused(kQk + "difference=int8/block64+mse,v=int8/channel", "difference=int8/block64+mse", "+mse", "no options");
  refused(kQk + "probs=u8/block64,v=int8/channel,q[h1]=int4/token", "q[h1]=int4/token",
          "a rule for some heads or maps of layer 0", "one for all of them");
}

TEST(ExecutedPlan, OfAttentionWithoutAModel) {
  const std::string rules = kQk + "difference=int8/block64,v=int8/channel";
  const ExecutedPlan plan = ExecutedPlanOfText("here", rules, 2), of_model = Of(rules);
  EXPECT_EQ(plan.attention.block, of_model.attention.block);
  EXPECT_EQ(plan.attention.order, of_model.attention.order);
  EXPECT_TRUE(plan.smooth_k);
  EXPECT_THAT(Call([] { ExecutedPlanOfText("here", "weights=int8/channel", 2); }),
              ThrowsMessage<Error>("here, plan 'weights=int8/channel': got no rule for attention, expected q, k, v and "
                                   "probs or difference"));
  EXPECT_THAT(Call([] { ExecutedPlanOfText("here", "q[l0]=int8/token", 2); }),
              ThrowsMessage<Error>(testing::HasSubstr("got a selector of layers, expected one plan for all layers")));
}

}  // namespace
}  // namespace tare::executed_plan_test

namespace tare::executed_sequence_test {
namespace {

std::vector<float> Attended(const ExecutedPlan& plan, RandomAttention& in) {
  ExecutedMemory memory;
  const ExecutedSequence sequence(plan, in.problem, memory);
  AlignedBuffer<std::byte> workspace(sequence.WorkspaceBytes());
  sequence.Run(workspace.span());
  return in.out;
}

void RotateAll(const HeadsView<const float>& x, const Hadamard& rotation) {
  for (int64_t t = 0; t < x.tokens; ++t) {
    for (int h = 0; h < x.heads; ++h) rotation.Rotate(x.Row(t, h), const_cast<float*>(x.Row(t, h)));
  }
}

// V of one slice and of two, heads of other widths than a power of two, rows that are not dense.
TEST(ExecutedSequence, RowsAreRotatedAndOutputsRotatedBack) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kDiffLlamaOrder}) {
    const AttentionShape shape{.family = family, .queries = 66, .keys = 66, .d = 20, .v_width = 24, .pad = 3};
    RandomAttention in(shape), rotated(shape);
    const ExecutedPlan plain{.attention = PlanOf(AttentionPlan::Order::kLate)};
    ExecutedPlan plan = plain;
    plan.rotated_qk = RotatedRuns{};
    plan.rotated_v = RotatedRuns{8};
    RotateAll(rotated.problem.q, PlanRotation(20));
    RotateAll(rotated.problem.k, PlanRotation(20));
    RotateAll(rotated.problem.v, PlanRotation(24, {8}));
    std::vector<float> expected = Attended(plain, rotated);
    for (size_t i = 0; i < expected.size(); i += 24) PlanRotation(24, {8}).RotateBack(&expected[i], &expected[i]);
    // A code of 127 that falls to the other side of a tie moves few values, by a 1/127th of theirs.
    EXPECT_LT(RelativeError(Attended(plan, in), expected), 2e-3);
    EXPECT_GT(RelativeError(Attended(plan, in), Attended(plain, in)), 4e-3) << "nothing was rotated";
    ReferenceAttention(in.problem);
    EXPECT_LT(RelativeError(expected, in.out), 0.02) << "and it is attention";
  }
}

// An outlier in one channel of K takes four bits from all the others of its row.
TEST(ExecutedSequence, RotationsSpreadOutliers) {
  RandomAttention in({.family = HeadKind::kStandard, .queries = 80, .keys = 80, .d = 64, .v_width = 64});
  for (int64_t t = 0; t < 80; ++t) {
    for (int h = 0; h < in.problem.k.heads; ++h) const_cast<float*>(in.problem.k.Row(t, h))[5] *= 20;
    for (int h = 0; h < in.problem.q.heads; ++h) const_cast<float*>(in.problem.q.Row(t, h))[5] /= 20;
  }
  ReferenceAttention(in.problem);
  const std::vector<float> exact = in.out;
  ExecutedPlan plan{.attention = PlanOf(AttentionPlan::Order::kLate)};
  plan.attention.q = plan.attention.k = Format::kInt4;
  const double without = RelativeError(Attended(plan, in), exact);
  plan.rotated_qk = RotatedRuns{};
  EXPECT_LT(RelativeError(Attended(plan, in), exact), 0.7 * without);
}

// Tokens that share a scale, by the formulas of the granularities, with and without a mean; 70 tokens end in a run.
TEST(ExecutedSequence, TokensShareTheirLargestMagnitude) {
  const auto shared = [](Granularity scale, int64_t a, int64_t b) {
    if (a / scale.n != b / scale.n) return false;
    a %= scale.n, b %= scale.n;
    if (scale.kind == Granularity::Kind::kTokensBy8) return a % 8 == b % 8;
    return scale.kind == Granularity::Kind::kTokens || a / 2 % 4 == b / 2 % 4;
  };
  const auto magnitudes = [&](const HeadsView<const float>& x, Granularity scale, const std::vector<float>& mean) {
    std::vector<float> all(static_cast<size_t>(x.heads * x.tokens), 0.0f);
    for (int h = 0; h < x.heads; ++h) {
      for (int64_t t = 0; t < x.tokens; ++t) {
        for (int64_t s = 0; s < x.tokens; ++s) {
          for (int i = 0; shared(scale, t, s) && i < x.width; ++i)
            all[h * x.tokens + t] = std::max(all[h * x.tokens + t],
                                             std::fabs(x.Row(s, h)[i] - (mean.empty() ? 0.0f : mean[h * x.width + i])));
        }
      }
    }
    return all;
  };
  for (const auto& [q, k] :
       {std::pair(Granularity{Granularity::Kind::kTokens, 128}, Granularity{Granularity::Kind::kTokens, 64}),
        {{Granularity::Kind::kTokensBy8, 32}, {Granularity::Kind::kTokensBy4x2, 64}}}) {
    for (const bool smooth : {false, true}) {
      RandomAttention in({.family = HeadKind::kV1, .queries = 70, .keys = 70, .d = 18, .pad = 2});
      ExecutedPlan plan{.attention = PlanOf(AttentionPlan::Order::kLate), .scale_q = q, .scale_k = k};
      if (smooth) plan.smooth_k = MeanOver::kAll;
      const std::vector<float> got = Attended(plan, in);
      std::vector<float> mean(smooth ? static_cast<size_t>(in.problem.k.heads) * 18 : 0);
      if (smooth) MeanOfPrefix(in.problem.k, mean.data(), 70);
      const std::vector<float> of_q = magnitudes(in.problem.q, q, {}), of_k = magnitudes(in.problem.k, k, mean);
      AttentionPlan kernel = plan.attention;
      kernel.q_absmax = of_q.data(), kernel.k_absmax = of_k.data();
      if (smooth) kernel.k_mean = mean.data();
      EXPECT_EQ(got, Execute(kernel, in));
    }
  }
}

TEST(ExecutedSequence, WhereTokensShareAScaleTheNaNIsNamed) {
  RandomAttention in({.queries = 70, .keys = 70});
  const_cast<float*>(in.problem.k.Row(69, 1))[3] = std::nanf("");
  const ExecutedPlan plan{.attention = PlanOf(AttentionPlan::Order::kLate),
                          .scale_k = {Granularity::Kind::kTokens, 64}};
  EXPECT_THAT(Call([&] { Attended(plan, in); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("attention k: got nan at token 69, head 1, channel 3")));
}

TEST(ExecutedSequence, WidthsWithoutARotationAreRefused) {
  RandomAttention in({.family = HeadKind::kStandard, .d = 18});
  ExecutedPlan plan{.attention = PlanOf(AttentionPlan::Order::kLate)};
  plan.rotated_qk = RotatedRuns{};
  EXPECT_THAT(Call([&] { Attended(plan, in); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("hadamard: got 18 channels")));
}

}  // namespace
}  // namespace tare::executed_sequence_test
