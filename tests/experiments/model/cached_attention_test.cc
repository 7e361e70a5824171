// SPDX-License-Identifier: Apache-2.0
// Whole models through it are in sequence_cache_test.cc; here, what it does not take.
#include "experiments/model/cached_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "quant/base/error.h"

namespace tare {
namespace {

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
  SequenceCache* const caches[] = {&cache};
  DecodeScratch scratch;
  EXPECT_THROW(CachedAttention(problem, {&sequence, 1}, caches, 0, scratch), Error);
  EXPECT_EQ(cache.tokens(), 0);
  problem.k = problem.v;
  CachedAttention(problem, {&sequence, 1}, caches, 0, scratch);
  EXPECT_EQ(cache.tokens(), 2);
  CachedAttention(problem, {&sequence, 1}, caches, 0, scratch);
  EXPECT_EQ(scratch.heads.size(), 1u);  // worked out once
  problem.mask = {.kind = Mask::Kind::kWindow, .window = 3};
  CachedAttention(problem, {&sequence, 1}, caches, 0, scratch);
  ASSERT_EQ(scratch.heads.size(), 2u);
  EXPECT_EQ(scratch.heads[1].window(), 3);
  for (const float x : out) EXPECT_NEAR(x, 1.0f, 1e-6);  // a mean of equal values
}

}  // namespace
}  // namespace tare
