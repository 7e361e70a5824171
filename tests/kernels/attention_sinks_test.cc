// SPDX-License-Identifier: Apache-2.0
// Learned sinks in every kernel of attention: none changes no bit, one is a key whose value is zero, a huge one takes
// all, and NaN is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "kernels/attention/float/fused_attention.h"
#include "kernels/attention/integer/executed_attention.h"
#include "kernels/decode/decode_attention.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/executed.h"
#include "tests/support/random_decode.h"
#include "tests/support/whole_references.h"

namespace tare::attention_sinks_test {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kHuge = 1e8f;  // below kMostLogit

const Mask kMasks[] = {{Mask::Kind::kFull}, {Mask::Kind::kCausal}, {Mask::Kind::kWindow, 37}};

std::vector<float> SinksOf(const AttentionProblem& problem, float scale = 1.5f) {
  std::vector<float> sinks;
  for (int head = 0; head < problem.q.heads; ++head) sinks.push_back(scale * std::sin(1.0f + static_cast<float>(head)));
  return sinks;
}

std::vector<float> Fuse(RandomAttention& in) {
  AlignedBuffer<std::byte> workspace(FusedWorkspaceBytes(in.problem));
  std::fill_n(workspace.data(), workspace.size(), std::byte{0x7f});
  FusedAttention(in.problem, workspace.span());
  return in.out;
}

// By another road: the output without a sink times sigmoid(log sum exp - sink), of each map.
TEST(Sinks, TheReferenceIsAttentionTimesASigmoid) {
  for (const Mask& mask : kMasks) {
    RandomAttention in({.family = HeadKind::kStandard, .heads = 4, .kv = 2, .queries = 9, .keys = 50, .mask = mask});
    const std::vector<double> plain = ReferenceAttentionDouble(in.problem);
    const std::vector<float> sinks = SinksOf(in.problem);
    in.problem.sinks = sinks;
    const std::vector<double> got = ReferenceAttentionDouble(in.problem);
    const int width = in.problem.out.width;
    for (size_t i = 0; i < got.size(); ++i) {
      const auto t = static_cast<int64_t>(i) / width / 4, h = static_cast<int64_t>(i) / width % 4;
      const KeyRange keys = mask.Keys(t, 9, 50);
      double sum = 0;
      for (int64_t s = keys.begin; s < keys.end; ++s) {
        double x = 0;
        for (int j = 0; j < in.problem.q.width; ++j)
          x += double{in.problem.q.Row(t, static_cast<int>(h))[j]} * in.problem.k.Row(s, static_cast<int>(h) / 2)[j];
        sum += std::exp(x * in.problem.scale);
      }
      ASSERT_NEAR(got[i], plain[i] * sum / (sum + std::exp(double{sinks[h]})), 1e-12 * (1 + std::abs(plain[i])));
    }
  }
}

TEST(Sinks, MinusInfinityIsNoneToTheBit) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kDiffLlamaOrder}) {
    for (const Mask& mask : kMasks) {
      RandomAttention in({.family = family, .queries = 70, .keys = 130, .mask = mask});
      const std::vector<float> none(static_cast<size_t>(in.problem.q.heads), -kInfinity);
      const auto expect_same = [&](const auto& run) {
        in.problem.sinks = {};
        const std::vector<float> plain = run();
        in.problem.sinks = none;
        EXPECT_EQ(run(), plain);
      };
      expect_same([&] { return ReferenceAttention(in.problem), in.out; });
      expect_same([&] { return Fuse(in); });
      expect_same([&] { return Execute(PlanOf(AttentionPlan::Order::kLate), in); });
      if (family == HeadKind::kStandard) continue;
      expect_same([&] { return Execute(PlanOf(AttentionPlan::Order::kEarly), in); });
    }
  }
}

// The bounds are the ones of the kernels' own tests.
TEST(Sinks, ExecutedIsThePlanInPlainLoops) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kDiffLlamaOrder}) {
    for (const AttentionPlan::Order order : {AttentionPlan::Order::kLate, AttentionPlan::Order::kEarly}) {
      if (family == HeadKind::kStandard && order == AttentionPlan::Order::kEarly) continue;
      for (const Mask& mask : kMasks) {
        for (const Format logits : {Format::kF32, Format::kInt6}) {
          RandomAttention in({.family = family, .queries = 30, .keys = 130, .mask = mask});
          const std::vector<float> sinks = SinksOf(in.problem, 4);
          in.problem.sinks = sinks;
          AttentionPlan plan = PlanOf(order);
          plan.logits = logits;
          const std::vector<float> got = Execute(plan, in);
          const std::vector<double> magnitudes = ReferenceMagnitudes(in.problem);
          QuantizedReference(plan, in.problem);
          for (size_t i = 0; i < got.size(); ++i)
            ASSERT_NEAR(got[i], in.out[i], 43 * 0x1p-24 * (magnitudes[i / in.problem.out.width] + 1)) << i;
        }
      }
    }
  }
}

// int8 everywhere costs these problems about 1 % without sinks, and no more with them.
TEST(Sinks, EveryKernelIsNearTheDoubleReference) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1}) {
    for (const Mask& mask : kMasks) {
      RandomAttention in({.family = family, .heads = 4, .kv = 2, .queries = 70, .keys = 200, .mask = mask});
      const std::vector<float> sinks = SinksOf(in.problem, 4);
      in.problem.sinks = sinks;
      const std::vector<double> want = ReferenceAttentionDouble(in.problem);
      EXPECT_LT(RelativeError(Fuse(in), want), 1e-5);
      EXPECT_LT(RelativeError(Execute(PlanOf(AttentionPlan::Order::kLate), in), want), 0.03);
      if (family == HeadKind::kStandard) continue;
      EXPECT_LT(RelativeError(Execute(PlanOf(AttentionPlan::Order::kEarly), in), want), 0.06);
    }
  }
}

// The sink above every logit by more than f32's exponents, one key, and rows that see none.
TEST(Sinks, AHugeSinkAndRowsOfFewKeys) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1}) {
    RandomAttention in({.family = family, .queries = 70, .keys = 130, .mask = {Mask::Kind::kCausal}});
    const std::vector<float> huge(static_cast<size_t>(in.problem.q.heads), kHuge);
    in.problem.sinks = huge;
    EXPECT_THAT((ReferenceAttention(in.problem), in.out), Each(0.0f));
    EXPECT_THAT(Fuse(in), Each(0.0f));
    EXPECT_THAT(Execute(PlanOf(AttentionPlan::Order::kLate), in), Each(0.0f));
    if (family == HeadKind::kStandard) continue;
    EXPECT_THAT(Execute(PlanOf(AttentionPlan::Order::kEarly), in), Each(0.0f));
  }
  RandomAttention one({.family = HeadKind::kStandard, .heads = 1, .queries = 1, .keys = 1, .d = 4, .v_width = 8});
  float logit = 0;
  for (int i = 0; i < 4; ++i) logit += one.q[static_cast<size_t>(i)] * one.k[static_cast<size_t>(i)];
  const float sink[] = {logit * one.problem.scale};  // as large: half each
  one.problem.sinks = sink;
  const std::vector<float> fused = Fuse(one), executed = Execute(PlanOf(AttentionPlan::Order::kLate), one);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(fused[i], 0.5f * one.v[i], 1e-6 * std::abs(one.v[i]));
    EXPECT_NEAR(executed[i], 0.5f * one.v[i], 0.02 * std::abs(one.v[i]) + 0.01);
  }
  // Ten queries over two keys: the first eight see none.
  RandomAttention few({.family = HeadKind::kStandard, .queries = 10, .keys = 2, .mask = {Mask::Kind::kCausal}});
  const std::vector<float> sinks = SinksOf(few.problem);
  few.problem.sinks = sinks;
  for (const std::vector<float>& out : {Fuse(few), Execute(PlanOf(AttentionPlan::Order::kLate), few)}) {
    for (int64_t t = 0; t < 10; ++t) {
      const float first = out[static_cast<size_t>(t * 2 * few.problem.out.width)];
      EXPECT_TRUE(t < 8 ? first == 0.0f : first != 0.0f) << t;
    }
  }
}

TEST(Sinks, DecodingIsTheReferenceOverTheCache) {
  for (const CacheRules& rules : {CacheRules{}, CacheRules{.k = {Format::kInt8}, .v = {Format::kInt8}}}) {
    for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1}) {
      for (const Mask& mask : {kMasks[1], kMasks[2]}) {
        RandomDecode c({.family = family, .heads = 4, .kv = 2, .queries = 5, .keys = 300, .mask = mask}, rules);
        const std::vector<float> sinks = SinksOf(c.tensors.problem, 4);
        DecodeSequence s = c.sequence();
        s.sinks = sinks;
        AlignedBuffer<std::byte> workspace(DecodeWorkspaceBytes(c.table, {&s, 1}));
        DecodeAttention(c.table, {&s, 1}, workspace.span());
        const int width = c.table.out_width();
        for (int h = 0; h < c.table.heads(); ++h) {
          const DecodeTruth truth = ReferenceDecode(c.tensors.heads[h], h, c.table.scale(), c.table.window(), s);
          for (int64_t t = 0; t < 5; ++t) {
            double error = 0;
            for (int i = 0; i < width; ++i) error += std::pow(s.out.Row(t, h)[i] - truth.out[t * width + i], 2);
            EXPECT_LT(std::sqrt(error), truth.bounds[t]) << h << " " << t;
          }
        }
      }
    }
  }
}

TEST(Sinks, DecodingWithNoneIsTheSameToTheBitAndAHugeOneGivesZeros) {
  RandomDecode c({.family = HeadKind::kV1, .heads = 4, .kv = 2, .queries = 3, .keys = 200}, {});
  const std::vector<float> plain = c.Run();
  const auto with = [&](float sink) {
    const std::vector<float> sinks(static_cast<size_t>(c.table.q_heads()), sink);
    DecodeSequence s = c.sequence();
    s.sinks = sinks;
    AlignedBuffer<std::byte> workspace(DecodeWorkspaceBytes(c.table, {&s, 1}));
    DecodeAttention(c.table, {&s, 1}, workspace.span());
    return c.tensors.out;
  };
  EXPECT_EQ(with(-kInfinity), plain);
  EXPECT_THAT(with(kHuge), Each(0.0f));
}

// A group's masses are the sums of its maps' probabilities: one less the sink's share, a query and map each.
TEST(Sinks, MassesOfKeysLackTheSinksShare) {
  RandomDecode c({.family = HeadKind::kStandard, .heads = 2, .kv = 1, .queries = 1, .keys = 100}, {});
  const auto total = [&](std::span<const float> sinks) {
    DecodeSequence s = c.sequence();
    s.sinks = sinks;
    std::vector<std::vector<float>> mass(c.table.groups().size(), std::vector<float>(100));
    AddKeyMass(KeyMass::kMaps, c.table, s, mass);
    double sum = 0;
    for (const auto& group : mass)
      for (const float x : group) sum += x;
    return sum;
  };
  EXPECT_NEAR(total({}), 2, 1e-5);
  const std::vector<float> none(2, -kInfinity), huge(2, kHuge), some(2, 3.0f);
  EXPECT_NEAR(total(none), 2, 1e-5);
  EXPECT_EQ(total(huge), 0);
  EXPECT_LT(total(some), 1.9);
  EXPECT_GT(total(some), 0.5);
}

TEST(Sinks, OthersAreRefused) {
  RandomAttention in({.family = HeadKind::kStandard, .queries = 3, .keys = 5});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto refused = [&](std::vector<float> sinks, const char* why) {
    in.problem.sinks = sinks;
    EXPECT_THAT(Call([&] { CheckProblem(in.problem); }), ThrowsMessage<Error>(HasSubstr(why)));
    in.problem.sinks = {};
  };
  refused({1, nan}, "attention, sinks: got nan of head 1, expected less than 2^30 in magnitude, or -infinity");
  refused({kInfinity, 0}, "attention, sinks: got inf of head 0");
  refused({0, -1e30f}, "attention, sinks: got -1e+30 of head 1");
  refused({1}, "attention, sinks: got 1, expected one for each of 2 query heads, or none");
  const std::vector<float> sinks(2, 1.0f), mean(64, 0.0f);
  in.problem.sinks = sinks;
  AttentionPlan plan = PlanOf(AttentionPlan::Order::kLate);
  plan.k_mean = mean.data();
  EXPECT_THAT(Call([&] { CheckPlan(plan, in.problem); }),
              ThrowsMessage<Error>(HasSubstr("attention plan, k: got a mean for heads with sinks")));
  plan.k_mean = nullptr, plan.v_mean = mean.data();
  EXPECT_THAT(Call([&] { CheckPlan(plan, in.problem); }),
              ThrowsMessage<Error>(HasSubstr("attention plan, v: got a mean")));
  RandomDecode c({.family = HeadKind::kStandard, .queries = 1, .keys = 5}, {});
  const std::vector<float> bad(2, nan);
  DecodeSequence s = c.sequence();
  AlignedBuffer<std::byte> workspace(DecodeWorkspaceBytes(c.table, {&s, 1}));
  s.sinks = bad;
  EXPECT_THAT(Call([&] { DecodeAttention(c.table, {&s, 1}, workspace.span()); }),
              ThrowsMessage<Error>(HasSubstr("decode, sequence 0, sinks: got nan of head 0")));
}

}  // namespace
}  // namespace tare::attention_sinks_test
