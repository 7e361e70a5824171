// SPDX-License-Identifier: Apache-2.0
// Which rows of a batch it takes, and what it refuses; sequence_cache_test.cc runs whole models through it.
#include "experiments/model/attention/cached_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

#include "quant/base/error.h"

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
  EXPECT_THROW(CachedAttention(problem, {&sequence, 1}, caches, 0, nullptr, scratch), Error);
  EXPECT_EQ(cache.tokens(), 0);
  problem.k = problem.v;
  CachedAttention(problem, {&sequence, 1}, caches, 0, nullptr, scratch);
  EXPECT_EQ(cache.tokens(), 2);
  CachedAttention(problem, {&sequence, 1}, caches, 0, nullptr, scratch);
  EXPECT_EQ(scratch.heads.size(), 1u);  // worked out once
  problem.mask = {.kind = Mask::Kind::kWindow, .window = 3};
  CachedAttention(problem, {&sequence, 1}, caches, 0, nullptr, scratch);
  ASSERT_EQ(scratch.heads.size(), 2u);
  EXPECT_EQ(scratch.heads[1].window(), 3);
  for (const float x : out) EXPECT_NEAR(x, 1.0f, 1e-6);  // a mean of equal values
}

}  // namespace
}  // namespace tare::cached_attention_test
