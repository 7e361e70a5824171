// SPDX-License-Identifier: Apache-2.0
// The layout of sequences and branches in a batch, and that sharing a batch or a prefix changes no result: rows of
// different sequences never meet, so only the order of f32 sums may differ.
#include "experiments/model/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "quant/base/parallel.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::batch_test {
namespace {

using ::testing::ElementsAre;

constexpr double kTolerance = 2e-5;  // as parity_test.cc

TEST(TokenBatchTest, SequencesAndBranchesAreContiguous) {
  TokenBatch batch;
  EXPECT_EQ(batch.Rows(), 0);
  EXPECT_EQ(batch.Add(7, std::vector<int32_t>{1, 2, 3}), 0);
  EXPECT_EQ(batch.AddBranch(std::vector<int32_t>{4, 5}), 3);
  EXPECT_EQ(batch.AddBranch(std::vector<int32_t>{6}), 5);
  EXPECT_EQ(batch.Add(9, std::vector<int32_t>{8}), 6);
  EXPECT_THAT(batch.tokens, ElementsAre(1, 2, 3, 4, 5, 6, 8));
  EXPECT_EQ(batch.Rows(), 7);
  ASSERT_EQ(batch.sequences.size(), 2u);
  EXPECT_EQ(batch.sequences[0].index, 7);
  EXPECT_EQ(batch.sequences[0].first_row, 0);
  EXPECT_EQ(batch.sequences[0].prefix, 3);
  EXPECT_THAT(batch.sequences[0].branches, ElementsAre(2, 1));
  EXPECT_EQ(batch.sequences[1].index, 9);
  EXPECT_EQ(batch.sequences[1].first_row, 6);
  EXPECT_EQ(batch.sequences[1].prefix, 1);
  EXPECT_TRUE(batch.sequences[1].branches.empty());
}

class BatchTest : public testing::TestWithParam<const char*> {
 protected:
  std::span<const float> Rows(const std::vector<float>& logits, int64_t first, int64_t count) const {
    const int64_t V = model_.config().vocabulary;
    return std::span(logits).subspan(static_cast<size_t>(first * V), static_cast<size_t>(count * V));
  }

  Model model_{GoldenFolder(GetParam())};
  // 111 tokens, more than a block of 64 queries, of the golden rows one after another.
  std::vector<int32_t> text_ = [] {
    const std::vector<std::vector<int32_t>> rows = GoldenRows(GetParam());
    std::vector<int32_t> text;
    for (const size_t row : {0, 1, 0}) text.insert(text.end(), rows[row].begin(), rows[row].end());
    return text;
  }();
};

TEST_P(BatchTest, SequencesInABatchEqualSequencesAlone) {
  const std::span<const int32_t> text(text_);
  const std::span<const int32_t> parts[] = {text.first(70), text.subspan(10, 1), text.subspan(20, 91),
                                            text.subspan(3, 64)};
  TokenBatch batch;
  std::vector<int64_t> first;
  for (size_t i = 0; i < std::size(parts); ++i) first.push_back(batch.Add(static_cast<int64_t>(i), parts[i]));
  const std::vector<float> together = LogitsOf(model_, batch);
  for (size_t i = 0; i < std::size(parts); ++i) {
    TokenBatch alone;
    alone.Add(0, parts[i]);
    EXPECT_TRUE(AllNear(Rows(together, first[i], std::ssize(parts[i])), LogitsOf(model_, alone), kTolerance))
        << "sequence " << i;
  }
}

TEST_P(BatchTest, BranchesEqualWholeSequences) {
  const std::span<const int32_t> text(text_);
  const std::span<const int32_t> prefix = text.first(30);
  const std::span<const int32_t> branches[] = {text.subspan(30, 5), text.subspan(3, 70), text.subspan(50, 1)};
  TokenBatch shared;
  shared.Add(0, text.first(9));  // something in front, so that rows are no positions
  const int64_t prefix_row = shared.Add(1, prefix);
  std::vector<int64_t> first;
  for (const auto& branch : branches) first.push_back(shared.AddBranch(branch));
  const std::vector<float> together = LogitsOf(model_, shared);
  for (size_t i = 0; i < std::size(branches); ++i) {
    std::vector<int32_t> whole(prefix.begin(), prefix.end());
    whole.insert(whole.end(), branches[i].begin(), branches[i].end());
    TokenBatch alone;
    alone.Add(0, whole);
    const std::vector<float> expected = LogitsOf(model_, alone);
    EXPECT_TRUE(AllNear(Rows(together, prefix_row, 30), Rows(expected, 0, 30), kTolerance)) << "prefix of branch " << i;
    EXPECT_TRUE(AllNear(Rows(together, first[i], std::ssize(branches[i])), Rows(expected, 30, std::ssize(branches[i])),
                        kTolerance))
        << "branch " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, BatchTest, testing::Values("llama-gqa", "diffllama-gqa"), [](const auto& test) {
  return std::string(test.param).substr(0, std::string(test.param).find('-'));
});

}  // namespace
}  // namespace tare::batch_test

namespace tare::show_sites_test {
namespace {

TokenBatch BranchedBatch() {
  TokenBatch batch;
  batch.Add(4, std::vector<int32_t>(3, 1));
  batch.AddBranch(std::vector<int32_t>(2, 1));
  batch.AddBranch(std::vector<int32_t>(1, 1));
  batch.Add(2, std::vector<int32_t>(130, 1));
  return batch;
}

// Marks each row that it is shown with its place.
class Marker : public SiteVisitor {
 public:
  explicit Marker(bool wants) : wants_(wants) {}
  bool Wants(Site site, std::optional<int> layer) const override {
    return wants_ && site == Site::kLayerOut && layer == 3;
  }
  void Visit(const SiteBlock& b, int thread) override {
    EXPECT_LT(thread, Threads());
    EXPECT_LE(b.rows, 64);
    EXPECT_FALSE(b.head);
    EXPECT_FALSE(b.map);
    EXPECT_EQ(b.layer, 3);
    for (int64_t r = 0; r < b.rows; ++r) {
      ASSERT_EQ(b.Columns(r), 2);
      b.Row(r)[0] += static_cast<float>(1000 * b.sequence + b.first_row + r);
      b.Row(r)[1] += static_cast<float>(b.slot);
    }
  }

 private:
  bool wants_;
};

TEST(ShowSitesTest, VisitorsSeeEveryRowOnceWithItsPosition) {
  const TokenBatch batch = BranchedBatch();
  std::vector<float> rows(static_cast<size_t>(batch.Rows()) * 2);
  Marker marker(true), other(false);
  SiteVisitor* const visitors[] = {&other, &marker};
  ShowRows(visitors, Site::kLayerOut, 3, batch, rows.data(), 2);
  const float expected[] = {4000, 4001, 4002, 4003, 4004, 4003};
  for (size_t r = 0; r < rows.size() / 2; ++r) {
    EXPECT_EQ(rows[2 * r], r < 6 ? expected[r] : static_cast<float>(2000 + r - 6)) << r;
    EXPECT_EQ(rows[2 * r + 1], r < 6 ? 0.0f : 1.0f) << r;
  }
  const std::vector<float> before = rows;
  ShowRows(visitors, Site::kLayerOut, 2, batch, rows.data(), 2);
  ShowRows(visitors, Site::kEmbed, 3, batch, rows.data(), 2);
  EXPECT_EQ(rows, before);
}

// Every (sequence, head) once a piece, with all its tokens; a survey of everything comes before the first visit.
class HeadsSeen : public SiteVisitor {
 public:
  bool Wants(Site, std::optional<int>) const override { return true; }
  bool NeedsSurvey(Site, std::optional<int>) const override { return true; }
  void Survey(const SiteBlock& b, int) override { surveyed.push_back(b); }
  void Visit(const SiteBlock& b, int) override { visited.push_back(b); }
  std::vector<SiteBlock> surveyed, visited;
};

TEST(ShowSitesTest, HeadsComeWithAllTokensOfAPieceAndTheirMap) {
  SetThreads(1);
  const TokenBatch batch = BranchedBatch();
  std::vector<float> values(static_cast<size_t>(batch.Rows()) * 4 * 3);
  HeadsSeen seen;
  SiteVisitor* const visitors[] = {&seen};
  const std::vector<OutputHead> table = DiffLlamaHeads(4, 4);
  ShowHeads(visitors, Site::kQ, 1, batch, table, DenseHeads(values.data(), batch.Rows(), 4, 3));
  SetThreads(0);
  ASSERT_EQ(seen.visited.size(), 16u);
  EXPECT_EQ(seen.surveyed.size(), 16u);
  const int64_t first_rows[] = {0, 3, 3, 0}, tokens[] = {3, 2, 1, 130}, batch_rows[] = {0, 3, 5, 6};
  for (size_t i = 0; i < 16; ++i) {
    const SiteBlock& b = seen.visited[i];
    EXPECT_EQ(b.head, static_cast<int>(i % 4));
    EXPECT_EQ(b.map, i % 4 < 2 ? 1 : 2);
    EXPECT_EQ(b.first_row, first_rows[i / 4]);
    EXPECT_EQ(b.rows, tokens[i / 4]);
    EXPECT_EQ(b.first_columns, 3);
    EXPECT_EQ(b.stride, 12);
    EXPECT_EQ(b.values, values.data() + batch_rows[i / 4] * 12 + static_cast<int64_t>(i % 4) * 3);
  }
}

}  // namespace
}  // namespace tare::show_sites_test

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

// Equal tokens as one sequence, as two sequences, and as a prefix with a branch are three different inputs.
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
