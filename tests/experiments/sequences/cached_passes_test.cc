// SPDX-License-Identifier: Apache-2.0
// Batches through caches give the logits of ordinary passes, branches among them, each row once.
#include "experiments/sequences/cached_passes.h"

#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/logits.h"

namespace tare {
namespace {

// The golden row again and again: more than a page.
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
    EXPECT_TRUE(AllNear(ThroughCaches(model, batch, {.k = {CacheFormat::kInt8}, .v = {CacheFormat::kInt8}, .last = 80}),
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
  const CacheRule channel{.format = CacheFormat::kInt8, .scales = CacheScales::kChannel};
  CachePlan plan{.k = channel, .v = channel};
  EXPECT_EQ(TokensAtOnce(plan, 0), 64);
  EXPECT_EQ(TokensAtOnce(plan, 70), 58);
  const std::vector<float> by_page = ThroughCaches(model, batch, plan);
  plan.last = 1;  // in f32 as it is, and one token at a time
  EXPECT_EQ(TokensAtOnce(plan, 70), 1);
  EXPECT_TRUE(AllNear(ThroughCaches(model, batch, plan), by_page, 2e-3));
}

}  // namespace
}  // namespace tare
