// SPDX-License-Identifier: Apache-2.0
// The log-sum-exp of rows beside attention's outputs, outputs over parts of the keys made one with it, sequences of
// several lengths in one problem, prefill over a cache, and masks aligned at either end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/float/fused_attention.h"
#include "kernels/attention/integer/executed_attention.h"
#include "kernels/cache/kv_cache.h"
#include "quant/base/aligned.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/executed.h"
#include "tests/support/random_decode.h"
#include "tests/support/whole_references.h"

namespace tare::attention_lse_test {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> Fuse(const AttentionProblem& problem, std::vector<float>& out) {
  AlignedBuffer<std::byte> workspace(FusedWorkspaceBytes(problem));
  FusedAttention(problem, workspace.span());
  return out;
}

// Asks for the lse of a problem, which `run` computes.
std::vector<float> LseOf(RandomAttention& in, const auto& run) {
  const int maps = in.heads.front().Maps();
  std::vector<float> lse(in.problem.q.tokens * in.problem.out.heads * maps, 99.0f);
  in.problem.lse = DenseHeads(lse.data(), in.problem.q.tokens, in.problem.out.heads, maps);
  run();
  in.problem.lse = {};
  return lse;
}

// The logarithm of the plain sum, of logits of normal values, which does not overflow.
double PlainLse(const AttentionProblem& p, int64_t t, int q, int k) {
  const KeyRange keys = p.Keys(t);
  double sum = std::exp(double{p.Sink(q)});
  for (int64_t s = keys.begin; s < keys.end; ++s) {
    double logit = 0;
    for (int i = 0; i < p.q.width; ++i) logit += double{p.q.Row(t, q)[i]} * p.k.Row(s, k)[i];
    sum += std::exp(logit * p.scale);
  }
  return std::log(sum);
}

void ExpectLse(const RandomAttention& in, const std::vector<float>& got, double bound) {
  const int maps = in.heads.front().Maps();
  for (int64_t t = 0; t < in.problem.q.tokens; ++t) {
    const KeyRange keys = in.problem.Keys(t);
    for (int h = 0; h < in.problem.out.heads; ++h) {
      for (int map = 0; map < maps; ++map) {
        const OutputHead& head = in.heads[static_cast<size_t>(h)];
        const float value = got[(t * in.problem.out.heads + h) * maps + map];
        if (keys.begin == keys.end)
          ASSERT_EQ(value, in.problem.Sink(head.Q(map))) << t;
        else
          ASSERT_NEAR(value, PlainLse(in.problem, t, head.Q(map), head.K(map)), bound) << t << " " << h << " " << map;
      }
    }
  }
}

// f32: as FusedBound's relative error of an exponential, whose logarithm's error is as large, and a rounding of 8.
// int8: q and k are off by half a 127th of their largest, some 3 of standard normal values, which moves each logit by
// less than 0.1; rounded logits of the same format as much again.
TEST(Lse, EveryKernelGivesTheLogarithmOfItsRowsSums) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kDiffLlamaOrder}) {
    for (const Mask& mask : {Mask{Mask::Kind::kFull}, Mask{}, Mask{Mask::Kind::kWindow, 37}}) {
      for (const int64_t keys : {9, 200}) {  // 9: the first queries see none
        for (const bool sinks : {false, true}) {
          RandomAttention in({.family = family, .heads = 4, .kv = 2, .queries = 70, .keys = keys, .mask = mask});
          std::vector<float> values;
          for (int q = 0; sinks && q < in.problem.q.heads; ++q) values.push_back(q % 2 == 0 ? -kInfinity : 3.0f);
          in.problem.sinks = values;
          ExpectLse(in, LseOf(in, [&] { ReferenceAttention(in.problem); }), 1e-6);
          ExpectLse(in, LseOf(in, [&] { Fuse(in.problem, in.out); }), 2e-5);
          for (const Format logits : {Format::kF32, Format::kInt8}) {
            AttentionPlan plan = PlanOf(AttentionPlan::Order::kLate);
            plan.logits = logits;
            ExpectLse(in, LseOf(in, [&] { Execute(plan, in); }), 0.2);
            if (family == HeadKind::kStandard) continue;
            plan = PlanOf(AttentionPlan::Order::kEarly);
            plan.logits = logits;
            ExpectLse(in, LseOf(in, [&] { Execute(plan, in); }), 0.2);
          }
        }
      }
    }
  }
}

TEST(Lse, AskingChangesNoBitOfTheOutput) {
  RandomAttention in({.family = HeadKind::kV1, .heads = 4, .kv = 2, .queries = 70, .keys = 300});
  const auto expect_same = [&](const auto& run) {
    run();
    const std::vector<float> plain = in.out;
    LseOf(in, run);
    EXPECT_EQ(in.out, plain);
  };
  expect_same([&] { Fuse(in.problem, in.out); });
  expect_same([&] { Execute(PlanOf(AttentionPlan::Order::kLate), in); });
  expect_same([&] { Execute(PlanOf(AttentionPlan::Order::kEarly), in); });
}

// Each map of a differential head as a head of its own, as attention in several parts takes it.
TEST(Lse, PartsOfTheKeysBecomeOne) {
  RandomAttention in({.family = HeadKind::kStandard, .heads = 4, .kv = 2, .queries = 33, .keys = 200, .mask = {}});
  const std::vector<float> whole = Fuse(in.problem, in.out);
  const int width = in.problem.out.width;
  std::vector<double> sum(whole.size()), weight(33 * 4);
  for (const KeyRange& keys : {KeyRange{0, 70}, KeyRange{70, 190}, KeyRange{190, 200}}) {
    std::vector<float> lse(33 * 4);
    AttentionProblem part = PartOf(in.problem, {0, 33}, keys);
    part.mask.shift = 200 - keys.end;
    part.lse = DenseHeads(lse.data(), 33, 4, 1);
    const std::vector<float> out = Fuse(part, in.out);
    for (size_t i = 0; i < out.size(); ++i) sum[i] += std::exp(double{lse[i / width]}) * out[i];
    for (size_t i = 0; i < lse.size(); ++i) weight[i] += std::exp(double{lse[i]});
  }
  for (size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(sum[i] / weight[i / width], whole[i], 1e-5);
}

std::vector<float> Decode(const DecodeHeads& table, DecodeSequence s, std::vector<float>& lse) {
  s.lse = DenseHeads(lse.data(), s.q.tokens, table.heads(), table.differential() ? 2 : 1);
  AlignedBuffer<std::byte> workspace(DecodeWorkspaceBytes(table, {&s, 1}));
  DecodeAttention(table, {&s, 1}, workspace.span());
  return lse;
}

// As attention over what the cache holds; beside codes logits are off by kDecodeBound of the largest, some 5.
TEST(Lse, DecodingGivesThatOfWhatTheCacheHolds) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kDiffLlamaOrder}) {
    for (const CacheRules& rules : {CacheRules{}, CacheRules{.k = {Format::kInt8}, .v = {Format::kInt8}, .first = 3}}) {
      for (const int64_t keys : {2, 64, 300}) {  // 2: the first query sees none
        RandomDecode c({.family = family, .heads = 4, .kv = 2, .queries = 3, .keys = keys}, rules);
        AttentionProblem p = c.tensors.problem;
        std::vector<float> k(c.tensors.k.size()), v(c.tensors.v.size()), sinks(p.q.heads, 1.5f);
        const HeadsView<float> held_k = DenseHeads(k.data(), keys, p.k.heads, p.k.width),
                               held_v = DenseHeads(v.data(), keys, p.v.heads, p.v.width);
        c.cache.Read(0, held_k, held_v);
        p.k = ReadOnly(held_k), p.v = ReadOnly(held_v);
        for (const bool with_sinks : {false, true}) {
          DecodeSequence s = c.sequence();
          if (with_sinks) s.sinks = p.sinks = sinks;
          const int maps = c.table.differential() ? 2 : 1;
          std::vector<float> got(3 * 4 * maps), want(got.size());
          Decode(c.table, s, got);
          p.lse = DenseHeads(want.data(), 3, 4, maps);
          ReferenceAttention(p);
          const double bound = HasCodes(rules.k.format) ? 6 * kDecodeBound : 2e-5;
          for (size_t i = 0; i < want.size(); ++i) {
            if (std::isinf(want[i]))
              ASSERT_EQ(got[i], want[i]) << i;
            else
              ASSERT_NEAR(got[i], want[i], bound) << keys << " " << i;
          }
        }
      }
    }
  }
}

TEST(Lse, PartsOfACacheBecomeOne) {
  RandomDecode whole({.family = HeadKind::kStandard, .heads = 4, .kv = 2, .queries = 1, .keys = 200}, {});
  const std::vector<float> want = whole.Run();
  const AttentionProblem& p = whole.tensors.problem;
  std::vector<double> sum(want.size()), weight(4);
  for (const KeyRange& keys : {KeyRange{0, 70}, KeyRange{70, 199}, KeyRange{199, 200}}) {
    const AttentionProblem part = PartOf(p, {0, 1}, keys);
    KvCache cache(whole.cache.shape(), {});
    cache.Append(part.k, part.v);
    DecodeSequence s = whole.sequence();
    s.cache = &cache;
    std::vector<float> lse(4);
    Decode(whole.table, s, lse);
    for (size_t i = 0; i < want.size(); ++i) sum[i] += std::exp(double{lse[i / 32]}) * whole.tensors.out[i];
    for (size_t i = 0; i < lse.size(); ++i) weight[i] += std::exp(double{lse[i]});
  }
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(sum[i] / weight[i / 32], want[i], 1e-5) << i;
}

// Rounds of a few queries each (kMostKeptBytes) write theirs.
TEST(Lse, DecodingInRoundsWritesEveryQuerys) {
  RandomDecode c({.family = HeadKind::kV1, .heads = 8, .kv = 4, .queries = 90, .keys = 4000}, {});
  std::vector<float> lse(90 * 8 * 2, 99.0f), last(8 * 2);
  Decode(c.table, c.sequence(), lse);
  EXPECT_THAT(lse, Each(testing::Lt(20.0f)));
  DecodeSequence s = c.sequence();
  const AttentionProblem one = PartOf(c.tensors.problem, {89, 90}, {0, 1});
  s.q = one.q, s.out = one.out, s.lambda = one.lambda;
  EXPECT_EQ(Decode(c.table, s, last), std::vector<float>(lse.end() - 16, lse.end()));
  s.lse = DenseHeads(last.data(), 1, 8, 1);
  EXPECT_THAT(Call([&] { DecodeAttention(c.table, {&s, 1}, {}); }),
              ThrowsMessage<Error>(HasSubstr("decode, sequence 0, lse: got 1 tokens of 8 heads of width 1, expected 1 "
                                             "of 8 of width 2")));
}

TEST(Lse, ViewsThatDoNotFitAndMeansOfKAreRefused) {
  RandomAttention in({.family = HeadKind::kV1, .heads = 2, .kv = 1, .queries = 3, .keys = 5});
  std::vector<float> lse(100);
  const auto refused = [&](HeadsView<float> view, const char* why) {
    in.problem.lse = view;
    EXPECT_THAT(Call([&] { CheckProblem(in.problem); }), ThrowsMessage<Error>(HasSubstr(why)));
  };
  const char* const why = "expected 3 of 2 and 2";
  refused(DenseHeads(lse.data(), 4, 2, 2), why);
  refused(DenseHeads(lse.data(), 3, 3, 2), why);
  refused(DenseHeads(lse.data(), 3, 2, 1), "attention lse: got 3 tokens of 2 heads and 1 maps, expected 3 of 2 and 2");
  in.problem.lse = DenseHeads(lse.data(), 3, 2, 2);
  AttentionPlan plan = PlanOf(AttentionPlan::Order::kLate);
  plan.k_mean = lse.data();
  EXPECT_THAT(Call([&] { CheckPlan(plan, in.problem); }),
              ThrowsMessage<Error>(HasSubstr("attention plan, k: got a mean, which takes a constant from every lse")));
}

TEST(Scale, IsRequired) {
  RandomAttention in({.family = HeadKind::kStandard, .queries = 3, .keys = 5, .d = 16});
  in.problem.scale = AttentionProblem{}.scale;
  EXPECT_THAT(Call([&] { Fuse(in.problem, in.out); }),
              ThrowsMessage<Error>(HasSubstr("attention scale: got nan, expected a finite number; try 1 / sqrt(16)")));
}

// Sequences of 1, 64, 0 and 40 tokens, as cumulative lengths have them, are those alone.
TEST(PartOf, SequencesOfSeveralLengthsAreThoseAlone) {
  RandomAttention batch({.family = HeadKind::kV1, .heads = 2, .kv = 1, .queries = 105, .keys = 105, .pad = 3});
  const int width = batch.problem.out.width * 2;
  const int64_t ends[] = {0, 1, 65, 65, 105};
  std::vector<float> all = batch.out;
  for (int i = 0; i < 4; ++i) {
    const KeyRange tokens{ends[i], ends[i + 1]};
    Fuse(PartOf(batch.problem, tokens, tokens), batch.out);
  }
  for (int i = 0; i < 4; ++i) {
    for (int64_t t = ends[i]; t < ends[i + 1]; ++t) {
      for (int h = 0; h < 2; ++h) {
        AttentionProblem alone = PartOf(batch.problem, {t, t + 1}, {ends[i], t + 1});
        std::vector<float> row(static_cast<size_t>(width));
        alone.out = DenseHeads(row.data(), 1, 2, batch.problem.out.width);
        ReferenceAttention(alone);
        for (int c = 0; c < width; ++c) ASSERT_NEAR(batch.out[t * width + c], row[static_cast<size_t>(c)], 1e-5) << t;
      }
    }
  }
  EXPECT_THAT(Call([&] { PartOf(batch.problem, {0, 106}, {0, 1}); }),
              ThrowsMessage<Error>(HasSubstr("attention: got a part from query 0 to 106, expected one of 105")));
  EXPECT_THAT(Call([&] { PartOf(batch.problem, {0, 1}, {3, 2}); }), ThrowsMessage<Error>(HasSubstr("key 3 to 2")));
}

TEST(MaskTest, CausalFromTheStart) {
  const Mask mask = Mask::CausalFromStart(3, 5);
  for (int64_t t = 0; t < 3; ++t) EXPECT_EQ(mask.Keys(t, 3, 5).end, t + 1);
  EXPECT_EQ(Mask::CausalFromStart(7, 2).Keys(5, 7, 2).end, 2);
  EXPECT_EQ(Mask{}.Keys(0, 3, 5).end, 3);
}

// What prefill over a cache starts from.
TEST(CacheRead, IsEveryTokensRow) {
  RandomAttention in({.family = HeadKind::kV1, .heads = 2, .kv = 1, .queries = 30, .keys = 130});
  const CacheShape shape{.k_heads = 2, .k_width = 16, .v_heads = 1, .v_width = 32};
  KvCache cache(shape, {.k = {Format::kInt8}, .v = {Format::kInt4}, .first = 2});
  cache.Append(in.problem.k, in.problem.v);
  std::vector<float> k(130 * 32), v(130 * 32), row(32);
  cache.Read(0, DenseHeads(k.data(), 130, 2, 16), DenseHeads(v.data(), 130, 1, 32));
  for (int64_t t = 0; t < 130; ++t) {
    cache.ReadKey(t, 1, row.data());
    EXPECT_TRUE(std::equal(row.begin(), row.begin() + 16, k.begin() + t * 32 + 16));
    cache.ReadValue(t, 0, row.data());
    EXPECT_TRUE(std::equal(row.begin(), row.end(), v.begin() + t * 32));
  }
  std::vector<float> late_k(3 * 32), late_v(3 * 32);
  cache.Read(127, DenseHeads(late_k.data(), 3, 2, 16), DenseHeads(late_v.data(), 3, 1, 32));
  EXPECT_TRUE(std::equal(late_k.begin(), late_k.end(), k.begin() + 127 * 32));
  EXPECT_TRUE(std::equal(late_v.begin(), late_v.end(), v.begin() + 127 * 32));
  const auto refused = [&](int64_t first, int64_t tokens, int heads, const char* why) {
    EXPECT_THAT(
        Call([&] { cache.Read(first, DenseHeads(k.data(), tokens, heads, 16), DenseHeads(v.data(), 1, 1, 32)); }),
        ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused(130, 1, 2, "cache: got first 130, expected 0 to 129");
  refused(-1, 1, 2, "cache: got first -1, expected 0 to 129");
  refused(0, 1, 1, "cache, k: got 1 tokens of 1 heads of width 16, expected 1 of 2 of width 16");
  refused(0, 2, 2, "cache, v: got 1 tokens of 1 heads of width 32, expected 2 of 1 of width 32");
}

}  // namespace
}  // namespace tare::attention_lse_test
