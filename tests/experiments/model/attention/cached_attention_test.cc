// SPDX-License-Identifier: Apache-2.0
// Which rows of a batch it takes, and what it refuses; sequence_cache_test.cc runs whole models through it.
// A prompt in parts, over a cache that rounds, against one call of the integer kernels for all of it, on what a scalar
// reader finds in the cache: the same bits.
#include "experiments/model/attention/sequence_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/support/executed.h"

namespace tare::cached_attention_test {
namespace {

TEST(CachedAttentionTest, RowsOfASequenceAreItsPrefix) {
  std::vector<float> values(5 * 2 * 4), lambda(5);
  const HeadsView<float> view = DenseHeads(values.data(), 5, 2, 4);
  const AttentionProblem batch{.q = ReadOnly(view),
                               .k = ReadOnly(view),
                               .v = ReadOnly(view),
                               .heads = {},
                               .lambda = {lambda.data(), 1, 0},
                               .mask = {},
                               .scale = 0.25f,
                               .out = view};
  const AttentionProblem rows = SequenceRows({.index = 1, .first_row = 2, .prefix = 3, .branches = {}}, batch);
  EXPECT_EQ(rows.q.tokens, 3);
  EXPECT_EQ(rows.q.Row(0, 1), batch.q.Row(2, 1));
  EXPECT_EQ(rows.k.Row(2, 0), batch.k.Row(4, 0));
  EXPECT_EQ(rows.v.data, batch.v.Row(2, 0));
  EXPECT_EQ(rows.out.data, batch.out.Row(2, 0));
  EXPECT_EQ(&rows.lambda.data[0], &lambda[2]);
  EXPECT_EQ(rows.scale, 0.25f);
}

TEST(CachedAttentionTest, KeysThatAreNotFiniteAreRefusedAndNothingJoins) {
  const ModelConfig config{.family = "llama", .layers = 1, .heads = 1, .kv_heads = 1, .head_dim = 4};
  SequenceCache cache(config, {});
  std::vector<float> values(8, 1.0f), out(8);
  std::vector<float> keys = values;
  keys[5] = std::numeric_limits<float>::infinity();
  const std::vector<OutputHead> heads = StandardHeads(1, 1);
  AttentionProblem problem{.q = ReadOnly(DenseHeads(values.data(), 2, 1, 4)),
                           .k = ReadOnly(DenseHeads(keys.data(), 2, 1, 4)),
                           .v = ReadOnly(DenseHeads(values.data(), 2, 1, 4)),
                           .heads = heads,
                           .lambda = {},
                           .mask = {},
                           .scale = 0.5f,
                           .out = DenseHeads(out.data(), 2, 1, 4)};
  const AttentionSequence sequence{.index = 0, .first_row = 0, .prefix = 2, .branches = {}};
  const std::array<SequenceCache*, 1> caches = {&cache};
  DecodeScratch scratch;
  EXPECT_THROW(CachedAttention(problem, {&sequence, 1}, caches, 0, nullptr, {}, scratch), Error);
  EXPECT_EQ(cache.tokens(), 0);
  problem.k = problem.v;
  CachedAttention(problem, {&sequence, 1}, caches, 0, nullptr, {}, scratch);
  EXPECT_EQ(cache.tokens(), 2);
  CachedAttention(problem, {&sequence, 1}, caches, 0, nullptr, {}, scratch);
  EXPECT_EQ(scratch.heads.size(), 1u);  // worked out once
  problem.mask = {.kind = Mask::Kind::kWindow, .window = 3};
  CachedAttention(problem, {&sequence, 1}, caches, 0, nullptr, {}, scratch);
  ASSERT_EQ(scratch.heads.size(), 2u);
  EXPECT_EQ(scratch.heads[1].window(), 3);
  for (const float x : out) EXPECT_NEAR(x, 1.0f, 1e-6);  // a mean of equal values
}

}  // namespace
}  // namespace tare::cached_attention_test

namespace tare::prompt_attention_test {
namespace {

constexpr CacheRules kInt8{.k = {Format::kInt8}, .v = {Format::kInt8}};

KvCache CacheOf(const RandomAttention& in, const CacheRules& rules) {
  const AttentionProblem& p = in.problem;
  return KvCache({p.k.heads, p.k.width, p.v.heads, p.v.width}, rules);
}

template <typename T>
HeadsView<T> Some(HeadsView<T> view, int64_t first, int64_t count) {
  view.data = view.Row(first, 0);
  view.tokens = count;
  return view;
}

// Parts of so many tokens, each after those before it. Leaves all tokens in the cache.
std::vector<float> InParts(const ExecutedPlan& plan, RandomAttention& in, const std::vector<int64_t>& parts,
                           KvCache& cache) {
  PromptMemory memory;
  int64_t first = 0;
  std::ranges::fill(in.out, 99.0f);
  for (const int64_t count : parts) {
    AttentionProblem part = in.problem;
    part.q = Some(part.q, first, count);
    part.out = Some(part.out, first, count);
    part.lambda.data += first * part.lambda.token_stride;
    cache.Append(Some(part.k, first, count), Some(part.v, first, count));
    part.k = part.v = {};  // not read
    PromptAttention(plan, part, cache, memory);
    first += count;
  }
  EXPECT_EQ(first, in.problem.q.tokens);
  return in.out;
}

// All tokens in one call, their keys and values as the cache has them, a row at a time.
std::vector<float> Whole(const ExecutedPlan& plan, RandomAttention& in, const KvCache& cache) {
  std::vector<float> k(in.k.size()), v(in.v.size());
  AttentionProblem& p = in.problem;
  const HeadsView<float> keys = DenseHeads(k.data(), p.k.tokens, p.k.heads, p.k.width),
                         values = DenseHeads(v.data(), p.v.tokens, p.v.heads, p.v.width);
  for (int64_t t = 0; t < keys.tokens; ++t) {
    for (int h = 0; h < keys.heads; ++h) cache.ReadKey(t, h, keys.Row(t, h));
    for (int h = 0; h < values.heads; ++h) cache.ReadValue(t, h, values.Row(t, h));
  }
  AttentionProblem whole = p;
  whole.k = ReadOnly(keys), whole.v = ReadOnly(values);
  std::ranges::fill(in.out, 98.0f);
  ExecutedMemory memory;
  const ExecutedSequence sequence(plan, whole, memory);
  AlignedBuffer<std::byte> workspace(sequence.WorkspaceBytes());
  sequence.Run(workspace.span());
  return in.out;
}

void ExpectWhole(const ExecutedPlan& plan, RandomAttention& in, const CacheRules& rules,
                 const std::vector<int64_t>& parts, const std::string& what) {
  KvCache cache = CacheOf(in, rules);
  const std::vector<float> got = InParts(plan, in, parts, cache);
  EXPECT_EQ(got, Whole(plan, in, cache)) << what;
}

TEST(PromptAttention, PartsOfAnyFamilyAreTheWhole) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kDiffLlamaOrder, HeadKind::kV2}) {
    for (const auto order : {AttentionPlan::Order::kLate, AttentionPlan::Order::kEarly}) {
      if (family == HeadKind::kStandard && order == AttentionPlan::Order::kEarly) continue;
      RandomAttention in({.family = family, .heads = 4, .kv = 2, .queries = 300, .keys = 300, .d = 20, .v_width = 40});
      for (const CacheRules& rules : {CacheRules{}, kInt8, CacheRules{.k = {Format::kInt4}, .v = {Format::kInt6}},
                                      CacheRules{.k = {Format::kBf16}, .v = {Format::kInt4}, .first = 70}})
        ExpectWhole({.attention = PlanOf(order)}, in, rules, {128, 64, 108},
                    Formatted("family {} order {} {} {}", static_cast<int>(family), static_cast<int>(order),
                              Name(rules.k.format), Name(rules.v.format)));
    }
  }
}

TEST(PromptAttention, LengthsAboutAPartAndATile) {
  const ExecutedPlan plan{.attention = PlanOf(AttentionPlan::Order::kLate)};
  for (const int64_t tokens : {1, 2, 63, 64, 65, 511, 512, 513}) {
    RandomAttention in({.family = HeadKind::kV1, .queries = tokens, .keys = tokens});
    ExpectWhole(plan, in, kInt8, {tokens}, std::to_string(tokens));
    if (tokens > 64) ExpectWhole(plan, in, kInt8, {64, tokens - 64}, std::to_string(tokens) + " in two");
  }
}

// Windows shorter than a part, as long, and longer than all; blocks that begin before the window does.
TEST(PromptAttention, Windows) {
  for (const int64_t window : {1, 5, 64, 130, 1000}) {
    for (const int block : {64, 128, 192}) {
      RandomAttention in({.family = HeadKind::kDiffLlamaOrder,
                          .queries = 600,
                          .keys = 600,
                          .mask = {.kind = Mask::Kind::kWindow, .window = window}});
      const ExecutedPlan plan{.attention = PlanOf(AttentionPlan::Order::kLate, block)};
      ExpectWhole(plan, in, kInt8, {384, 216}, Formatted("window {} block {}", window, block));
    }
  }
}

// The values of a block that a part ends in have a scale that later ones change.
TEST(PromptAttention, APartThatCutsABlockIsNotTheWhole) {
  RandomAttention in({.family = HeadKind::kStandard, .queries = 256, .keys = 256});
  const ExecutedPlan plan{.attention = PlanOf(AttentionPlan::Order::kLate, 128)};
  KvCache cache = CacheOf(in, kInt8);
  const std::vector<float> got = InParts(plan, in, {64, 192}, cache), whole = Whole(plan, in, cache);
  const auto row = in.problem.out.token_stride;
  EXPECT_TRUE(std::equal(got.begin() + 64 * row, got.end(), whole.begin() + 64 * row));
  EXPECT_FALSE(std::equal(got.begin(), got.begin() + 64 * row, whole.begin()));
  EXPECT_LT(RelativeError(got, whole), 0.01) << "by less than a code of 127";
}

// Scales of tokens<N> count from the prompt's first token, whatever the parts and the window.
TEST(PromptAttention, ScalesOfTokensAreOfTheWhole) {
  using enum Granularity::Kind;
  for (const auto& [q, k] :
       {std::pair(Granularity{kTokens, 48}, Granularity{kTokens, 96}), {{kTokensBy8, 96}, {kTokensBy4x2, 24}}}) {
    for (const Mask mask : {Mask{}, Mask{.kind = Mask::Kind::kWindow, .window = 100}}) {
      RandomAttention in({.family = HeadKind::kV1, .queries = 500, .keys = 500, .mask = mask});
      const ExecutedPlan plan{.attention = PlanOf(AttentionPlan::Order::kLate), .scale_q = q, .scale_k = k};
      ExpectWhole(plan, in, kInt8, {192, 192, 116}, Formatted("{} {} window {}", Name(q), Name(k), mask.window));
    }
  }
}

// Queries of a run that a part cuts have a scale on each side; those of later runs are as of the whole.
TEST(PromptAttention, APartThatCutsARunOfQueries) {
  RandomAttention in({.family = HeadKind::kStandard, .queries = 200, .keys = 200});
  const ExecutedPlan plan{.attention = PlanOf(AttentionPlan::Order::kLate),
                          .scale_q = {Granularity::Kind::kTokens, 48}};
  KvCache cache = CacheOf(in, kInt8);
  const std::vector<float> got = InParts(plan, in, {64, 136}, cache), whole = Whole(plan, in, cache);
  const auto row = in.problem.out.token_stride;
  EXPECT_TRUE(std::equal(got.begin(), got.begin() + 48 * row, whole.begin()));
  EXPECT_FALSE(std::equal(got.begin() + 48 * row, got.begin() + 96 * row, whole.begin() + 48 * row));
  EXPECT_TRUE(std::equal(got.begin() + 96 * row, got.end(), whole.begin() + 96 * row));
}

TEST(PromptAttention, LearnedSinksRotationsAndQuantizedLogits) {
  RandomAttention in({.family = HeadKind::kV1, .heads = 2, .kv = 2, .queries = 200, .keys = 200});
  const std::vector<float> sinks = {0.5f, -2.0f, -std::numeric_limits<float>::infinity(), 3.0f};
  for (const auto order : {AttentionPlan::Order::kLate, AttentionPlan::Order::kEarly}) {
    ExecutedPlan plan{.attention = PlanOf(order)};
    in.problem.sinks = sinks;
    ExpectWhole(plan, in, kInt8, {128, 72}, "sinks");
    in.problem.sinks = {};
    plan.rotated_qk = RotatedRuns{}, plan.rotated_v = RotatedRuns{8};
    CacheRules rotated = kInt8;
    rotated.k.hadamard = RotatedRuns{8};
    ExpectWhole(plan, in, rotated, {128, 72}, "rotated");
    plan.attention.logits = Format::kInt8;
    ExpectWhole(plan, in, kInt8, {128, 72}, "logits");
  }
}

TEST(PromptAttention, TheSameOnAnyNumberOfThreads) {
  RandomAttention in({.family = HeadKind::kV2, .heads = 3, .kv = 3, .queries = 333, .keys = 333});
  const auto run = [&](int threads) {
    SetThreads(threads);
    KvCache cache = CacheOf(in, kInt8);
    const std::vector<float> out = InParts({.attention = PlanOf(AttentionPlan::Order::kLate)}, in, {192, 141}, cache);
    SetThreads(0);
    return out;
  };
  const std::vector<float> one = run(1);
  EXPECT_EQ(run(2), one);
  EXPECT_EQ(run(5), one);
}

TEST(PromptAttention, QueriesThatAreNotFiniteAreRefused) {
  RandomAttention in({.queries = 70, .keys = 70});
  const_cast<float*>(in.problem.q.Row(69, 1))[3] = std::numeric_limits<float>::infinity();
  KvCache cache = CacheOf(in, kInt8);
  EXPECT_THROW(InParts({.attention = PlanOf(AttentionPlan::Order::kLate)}, in, {64, 6}, cache), Error);
}

}  // namespace
}  // namespace tare::prompt_attention_test
