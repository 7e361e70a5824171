// SPDX-License-Identifier: Apache-2.0
// Outliers of made rows: any order of blocks on any thread, values that are not finite, a bound of what is kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <tuple>

#include "experiments/observe/full_observer.h"
#include "experiments/observe/statistics_report.h"
#include "quant/base/parallel.h"

namespace tare::outlier_figures_test {
namespace {

StatisticsSet SetOf(FullObserver& observer) {
  StatisticsSet set;
  set.skip_first = kSkipFirst;
  set.MergeSites(observer.Take());
  return set;
}

// Made rows: 3 sequences of 2 layers and 4 heads, and their hidden states.
struct MadeRows {
  explicit MadeRows(int64_t tokens) {
    std::mt19937 random(static_cast<unsigned>(tokens));
    std::normal_distribution<float> normal;
    for (int64_t sequence = 0; sequence < 3; ++sequence) {
      for (int layer = 0; layer < 2; ++layer) {
        for (int head = -1; head < 4; ++head) {
          std::vector<float>& matrix = values[{sequence, layer, head}];
          matrix.resize(static_cast<size_t>(tokens * tokens));
          for (float& value : matrix) value = std::round(normal(random) * 16) / 16;  // so that many are equal
          for (int64_t row = 0; row < tokens; row += 10) {
            const bool logits = head >= 0;
            blocks.push_back({.site = logits ? Site::kAttnLogits : Site::kLayerOut,
                              .layer = layer,
                              .sequence = sequence,
                              .head = head,
                              .map = logits ? std::optional(1 + head / 2) : std::nullopt,
                              .first_row = row,
                              .rows = std::min<int64_t>(10, tokens - row),
                              .first_columns = logits ? row + 1 : tokens,
                              .column_step = logits ? 1 : 0,
                              .values = matrix.data() + row * tokens,
                              .stride = tokens});
          }
        }
      }
    }
  }
  std::map<std::tuple<int64_t, int, int>, std::vector<float>> values;
  std::vector<SiteBlock> blocks;
};

ModelConfig MadeConfig() { return {.family = "diffllama", .layers = 2, .heads = 4, .kv_heads = 4}; }

TEST(OutlierFiguresTest, NeitherOrderNorThreadOfABlockMatters) {
  MadeRows rows(50);
  std::mt19937 random(1);
  SetThreads(5);
  FullObserver first = OutlierObserver(MadeConfig());
  for (const SiteBlock& block : rows.blocks) first.Visit(block, 0);
  const StatisticsSet first_set = SetOf(first);
  for (int trial = 0; trial < 10; ++trial) {
    std::ranges::shuffle(rows.blocks, random);
    FullObserver shuffled = OutlierObserver(MadeConfig());
    for (const SiteBlock& block : rows.blocks) shuffled.Visit(block, static_cast<int>(random() % 5));
    const StatisticsSet set = SetOf(shuffled);
    ASSERT_EQ(OutliersAt(set.sites, Site::kAttnLogits), OutliersAt(first_set.sites, Site::kAttnLogits));
    ASSERT_EQ(OutliersAt(set.sites, Site::kAttnLogits, 1, 3), OutliersAt(first_set.sites, Site::kAttnLogits, 1, 3));
    ASSERT_EQ(OutliersAt(set.sites, Site::kAttnLogits, {}, {}, 2),
              OutliersAt(first_set.sites, Site::kAttnLogits, {}, {}, 2));
    ASSERT_EQ(OutliersAt(set.sites, Site::kLayerOut, 0), OutliersAt(first_set.sites, Site::kLayerOut, 0));
  }
  SetThreads(0);
}

TEST(OutlierFiguresTest, NanAndInfinityAreCountedAndLocated) {
  MadeRows rows(20);
  rows.values[{2, 1, 3}][15 * 20 + 4] = std::numeric_limits<float>::quiet_NaN();
  rows.values[{1, 0, -1}][7 * 20 + 19] = -std::numeric_limits<float>::infinity();
  rows.values[{2, 1, 3}][4 * 20 + 15] = std::numeric_limits<float>::quiet_NaN();  // masked
  FullObserver all = OutlierObserver(MadeConfig());
  for (const SiteBlock& block : rows.blocks) all.Visit(block, 0);
  const StatisticsSet set = SetOf(all);
  EXPECT_EQ(OutliersAt(set.sites, Site::kAttnLogits).nonfinite, 1u);
  EXPECT_EQ(OutliersAt(set.sites, Site::kAttnLogits).first_nonfinite, (Place{2, 1, 3, 15, 4}));
  EXPECT_EQ(OutliersAt(set.sites, Site::kAttnLogits).count(), 3u * 2 * 4 * (210 - 1) - 1);
  EXPECT_EQ(OutliersAt(set.sites, Site::kLayerOut).first_nonfinite, (Place{1, 0, -1, 7, 19}));
  EXPECT_EQ(OutliersAt(set.sites, Site::kLayerOut, 1).nonfinite, 0u);
}

// What is kept is 100 values and the bins that were touched, a target: no more after a hundred times the values.
TEST(OutlierFiguresTest, KeepsNoMoreOfALongerText) {
  MadeRows rows(50);
  const auto after = [&](int repeats) {
    FullObserver observer = OutlierObserver(MadeConfig());
    for (int repeat = 0; repeat < repeats; ++repeat) {
      for (SiteBlock block : rows.blocks) {
        block.sequence += 3 * repeat;
        observer.Visit(block, 0);
      }
      observer.BeginBatch(1);
    }
    const StatisticsSet set = SetOf(observer);
    return OutliersAt(set.sites, Site::kAttnLogits);
  };
  const OutlierStatistics once = after(1), all = after(100);
  EXPECT_EQ(all.count(), 100 * once.count());
  EXPECT_EQ(all.magnitudes.Counts().size(), once.magnitudes.Counts().size());
  EXPECT_EQ(all.top.size(), 100u);
}

}  // namespace
}  // namespace tare::outlier_figures_test
