// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/kept_streams.h"

#include <gtest/gtest.h>

#include "experiments/model/model.h"
#include "experiments/model/sites_of_model.h"
#include "tests/support/golden.h"

namespace tare::kept_streams_test {
namespace {

TokenBatch BatchOfTokens(std::vector<int32_t> tokens) {
  TokenBatch batch;
  batch.Add(0, tokens);
  return batch;
}

std::vector<float> Resumed(const KeptStreams& kept, const TokenBatch& batch, int layer) {
  std::vector<float> x(2);
  EXPECT_EQ(kept.Resume(batch, x), layer);
  return x;
}

TEST(KeptStreams, ARunGoesOnFromTheLastOfItsNames) {
  const TokenBatch ab = BatchOfTokens({1, 2}), c = BatchOfTokens({3, 4});
  KeptStreams kept;
  EXPECT_EQ(Resumed(kept, ab, 0), std::vector<float>(2));
  kept.Begin({.names = {0, 1, 2}, .kept = {1, 2}, .expected = {{1, 1}, {2, 2}}});
  kept.Keep(ab, 1, std::vector{1.0f, 2.0f});
  kept.Keep(ab, 2, std::vector{3.0f, 4.0f});
  kept.Begin({.names = {0, 1, 7}, .kept = {}, .expected = {{1, 1}, {2, 2}, {2, 7}}});
  EXPECT_EQ(Resumed(kept, ab, 1), (std::vector{1.0f, 2.0f}));
  EXPECT_EQ(Resumed(kept, c, 0), std::vector<float>(2));
  kept.Begin({.names = {5, 6, 2}, .kept = {}, .expected = {{2, 2}}});
  EXPECT_EQ(Resumed(kept, ab, 2), (std::vector{3.0f, 4.0f}));
  EXPECT_EQ(kept.values(), 2);
  kept.Begin({.names = {0, 1, 2}, .kept = {}, .expected = {}});
  EXPECT_EQ(kept.values(), 0);
  EXPECT_EQ(Resumed(kept, ab, 0), std::vector<float>(2));
}

// The same tokens as one sequence and as two, or as a prefix and a branch, are not the same.
TEST(KeptStreams, SequencesOfOtherLengthsAreOthers) {
  TokenBatch two, branched;
  two.Add(0, std::vector{1});
  two.Add(1, std::vector{2});
  branched.Add(0, std::vector{1});
  branched.AddBranch(std::vector{2});
  KeptStreams kept;
  kept.Begin({.names = {0, 0}, .kept = {1}, .expected = {{1, 0}}});
  kept.Keep(two, 1, std::vector{1.0f, 2.0f});
  Resumed(kept, BatchOfTokens({1, 2}), 0);
  Resumed(kept, branched, 0);
  Resumed(kept, two, 1);
}

TEST(KeptStreams, KeepsNoMoreThanItsMost) {
  const TokenBatch ab = BatchOfTokens({1, 2}), c = BatchOfTokens({3, 4});
  KeptStreams kept(3);
  kept.Begin({.names = {0, 1, 2}, .kept = {2}, .expected = {{2, 2}}});
  kept.Keep(ab, 1, std::vector{1.0f, 2.0f});  // is not asked for
  EXPECT_EQ(kept.values(), 0);
  kept.Keep(ab, 2, std::vector{1.0f, 2.0f});
  kept.Keep(ab, 2, std::vector{1.0f, 2.0f});
  kept.Keep(c, 2, std::vector{1.0f, 2.0f});
  EXPECT_EQ(kept.values(), 2);
  Resumed(kept, c, 0);
}

class LayersSeen : public SiteVisitor {
 public:
  bool Wants(Site site, std::optional<int>) const override { return site == Site::kLayerOut; }
  void Visit(const SiteBlock& block, int) override {
    if (block.rows > 0) layers.push_back(block.layer.value_or(-1));
  }
  std::vector<int> layers;
};

TEST(KeptStreams, TheModelRunsTheLayersThatAreLeft) {
  Model model(GoldenFolder("llama-mha"));
  ASSERT_EQ(model.config().layers, 2);
  const TokenBatch batch = BatchOfTokens({1, 2, 3});
  model.Forward(batch);
  const std::vector<float> plain(model.FinalState(0), model.FinalState(3));
  KeptStreams kept;
  model.CarryOut({.plan = {Plan(), ModelSitesOf(model), Carrying::kSimulated}, .streams = &kept});
  const auto run = [&](std::vector<int> names) {
    kept.Begin({.names = std::move(names), .kept = {1, 2}, .expected = {{1, 1}, {2, 2}}});
    LayersSeen seen;
    SiteVisitor* const visitors[] = {&seen};
    model.Forward(batch, visitors);
    EXPECT_EQ(std::vector<float>(model.FinalState(0), model.FinalState(3)), plain);
    return std::set(seen.layers.begin(), seen.layers.end());
  };
  EXPECT_EQ(run({0, 1, 2}), (std::set{0, 1}));
  EXPECT_EQ(run({0, 1, 9}), (std::set{1}));
  EXPECT_EQ(run({0, 1, 2}), (std::set<int>{}));
}

}  // namespace
}  // namespace tare::kept_streams_test
