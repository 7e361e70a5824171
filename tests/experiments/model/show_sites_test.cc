// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/show_sites.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <vector>

#include "quant/base/parallel.h"

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
