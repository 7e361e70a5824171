// SPDX-License-Identifier: Apache-2.0
// Batches through caches, with branches, give the logits of ordinary passes, each row once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "experiments/model/plan_run.h"
#include "experiments/passes/sequences.h"
#include "quant/base/message.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::cached_passes_test {
namespace {

// The golden row, repeated until it is longer than a page.
std::vector<int32_t> Long(const std::string& name) {
  const std::vector<int32_t> row = GoldenRows(name)[0];
  std::vector<int32_t> tokens;
  while (tokens.size() < 74) tokens.insert(tokens.end(), row.begin(), row.end());
  return tokens;
}

std::vector<float> ThroughCaches(Model& model, const TokenBatch& whole, const CachePlan& plan) {
  const int64_t V = model.config().vocabulary;
  std::vector<float> logits(static_cast<size_t>(whole.Rows() * V));
  std::vector<int> seen(static_cast<size_t>(whole.Rows()));
  PassThroughCaches(model, {}, whole, plan, [&](const TokenBatch& pass, const std::vector<int64_t>& rows) {
    ASSERT_EQ(pass.Rows(), std::ssize(rows));
    std::vector<int64_t> all(rows.size());
    std::iota(all.begin(), all.end(), 0);
    for (const int64_t row : rows) ++seen[static_cast<size_t>(row)];
    model.VocabularyLogits(all,
                           [&](size_t i, const float* row, int) { std::copy_n(row, V, logits.begin() + rows[i] * V); });
  });
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
  return logits;
}

TEST(CachedPassesTest, BranchesForkTheirPrefix) {
  for (const char* name : {"llama-gqa", "diffllama-gqa"}) {
    Model model(GoldenFolder(name));
    const std::vector<int32_t> tokens = Long(name);
    TokenBatch batch;
    batch.Add(0, std::span(tokens).first(60));
    batch.AddBranch(std::span(tokens).subspan(60, 14));  // over the end of a page
    batch.AddBranch(std::span(tokens).first(3));
    batch.Add(1, std::span(tokens).first(1));
    const std::vector<float> expected = LogitsOf(model, batch);
    EXPECT_TRUE(AllNear(ThroughCaches(model, batch, {}), expected, 2e-5)) << name;
    EXPECT_TRUE(AllNear(ThroughCaches(model, batch, ParseCachePlan("cache_k=int8/token,cache_v=int8/token,last=80")),
                        expected, 2e-5))
        << name;
  }
}

// Where scales per channel are fixed by a page's last token, chunks end with pages: as one token at a time.
TEST(CachedPassesTest, ByChannelAsTokenByToken) {
  Model model(GoldenFolder("diffllama-mha"));
  const std::vector<int32_t> tokens = Long("diffllama-mha");
  TokenBatch batch;
  batch.Add(0, tokens);
  CachePlan plan = ParseCachePlan("cache_k=int8/channel,cache_v=int8/channel");
  EXPECT_EQ(SequenceCache(model.config(), plan).TokensAtOnce(), 64);
  const std::vector<float> by_page = ThroughCaches(model, batch, plan);
  plan.policy.last = 1;  // in f32 as it is, and one token at a time
  EXPECT_EQ(SequenceCache(model.config(), plan).TokensAtOnce(), 1);
  EXPECT_TRUE(AllNear(ThroughCaches(model, batch, plan), by_page, 2e-3));
}

// What a plan simulates at k and v; a code that differs by the order of a sum moves a logit by some thousandths.
void ExpectCachesSimulate(const std::string& caches, const std::string& plan) {
  const StaticSource statics = [](const Rule&, const SiteKey& key) {
    return std::vector<float>{key.site == Site::kK ? 3.0f : 0.5f};
  };
  for (const char* name : {"llama-gqa", "diffllama-gqa"}) {
    Model model(GoldenFolder(name));
    const std::vector<int32_t> tokens = Long(name);
    TokenBatch batch;
    batch.Add(0, tokens);
    PlanRun simulated(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(model), statics);
    const PlanRun cached(Plan::Parse(caches), Carrying::kSimulated, ModelSitesOf(model), statics);
    const std::vector<float> expected = LogitsOf(model, batch, simulated.Begin(model));
    EXPECT_TRUE(AllNear(ThroughCaches(model, batch, *cached.cache()), expected, 4e-3)) << name << " " << caches;
    EXPECT_FALSE(AllNear(LogitsOf(model, batch), expected, 4e-3)) << name << " " << plan;
  }
}

TEST(CachedPassesTest, CodesOfGridsAreThoseThatPlansSimulate) {
  for (const char* level : {"fp8e4m3/token", "fp8e5m2/token", "normal4/token+hadamard", "normal3/token+mean",
                            "nf4/token", "grid(-1 -0.4 -0.1 0.2 0.7)/token", "fp8e4m3/tensor+static"})
    ExpectCachesSimulate(Formatted("cache_k={},cache_v={}", level, level), Formatted("k={},v={}", level, level));
}

// MX blocks of keys lie along channels in both; of values, which a plan has along tokens, a rule of the same groups and
// scales stands for them.
TEST(CachedPassesTest, BlocksOfMxAreThoseThatPlansSimulate) {
  ExpectCachesSimulate("cache_k=mxfp4", "k=mxfp4");
  ExpectCachesSimulate("cache_k=mxfp8e5m2,cache_v=mxfp8e4m3", "k=mxfp8e5m2,v=fp8e4m3:floor/group32");
}

// Dropped keys are dropped for every token that comes after, whatever the branch.
TEST(CachedPassesTest, KeysAreDroppedAsTokenByToken) {
  Model model(GoldenFolder("diffllama-mha"));
  const std::vector<int32_t> tokens = Long("diffllama-mha");
  for (const char* policy : {"window", "h2o", "difference", "snapkv", "snapkv-difference"}) {
    const CachePlan plan = ParseCachePlan(std::string("keep=") + policy + "/40");
    TokenBatch batch;
    batch.Add(0, std::span(tokens).first(60));
    batch.AddBranch(std::span(tokens).subspan(60, 10));
    SequenceCache cache(model.config(), plan);
    cache.ExpectPrompt(60);
    std::vector<float> expected;
    for (size_t t = 0; t < 70; ++t) {
      TokenBatch one;
      one.AddAfter(cache, 0, std::span(tokens).subspan(t, 1));
      const std::vector<float> logits = LogitsOf(model, one);
      expected.insert(expected.end(), logits.begin(), logits.end());
    }
    EXPECT_TRUE(AllNear(ThroughCaches(model, batch, plan), expected, 2e-5)) << policy;
  }
}

}  // namespace
}  // namespace tare::cached_passes_test
