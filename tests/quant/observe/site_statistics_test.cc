// SPDX-License-Identifier: Apache-2.0
// The merge law for everything that a site keeps.
#include "quant/observe/site_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace tare::site_statistics_test {
namespace {

// One sequence's statistics, of random values.
SiteStatistics OfSequence(int64_t sequence, std::mt19937& random) {
  const size_t sums = SumNames(Site::kLayerOut).size();
  SiteStatistics s(sums);
  std::normal_distribution<float> normal;
  Fold& fold = s.folds[static_cast<size_t>(sequence % SiteStatistics::kFolds)];
  fold.sequences = 1;
  s.channel_energy = ExactSums(4);
  for (int64_t row = 0; row < 1 + static_cast<int64_t>(random() % 5); ++row) {
    ++fold.rows;
    for (int64_t column = 0; column < 4; ++column) {
      const float value = normal(random);
      s.outliers.magnitudes.Add(value);
      s.outliers.top.Offer(value, {sequence, 0, -1, row, column});
      ++fold.values;
      for (size_t i = 0; i < sums; ++i) fold.sums.Add(i, value * static_cast<double>(i + 1) / 3);
      s.channel_energy.Add(static_cast<size_t>(column), static_cast<double>(value) * value);
      s.largest = std::max(s.largest.value_or(value), value);
      fold.absmax = std::max(fold.absmax, std::fabs(value));
      MergeMaxima(s.channel_absmax, std::vector<float>(static_cast<size_t>(column) + 1, std::fabs(value)));
      MergeMaxima(s.token_absmax, std::vector<float>(static_cast<size_t>(row) + 1, std::fabs(value)));
    }
  }
  return s;
}

TEST(SiteStatistics, MergeInAnyOrderAndGroupingToTheSame) {
  std::mt19937 random(1);
  std::vector<SiteStatistics> parts;
  for (int64_t i = 0; i < 70; ++i) parts.push_back(OfSequence(i, random));
  const SiteStatistics empty(SumNames(Site::kLayerOut).size());
  SiteStatistics whole = empty;
  for (const SiteStatistics& part : parts) whole.Merge(part);
  EXPECT_EQ(whole.Total().sequences, 70u);
  for (int round = 0; round < 5; ++round) {
    std::ranges::shuffle(parts, random);
    SiteStatistics merged = empty, group = empty;
    for (const SiteStatistics& part : parts) {
      group.Merge(part);
      if (random() % 3 != 0) continue;
      merged.Merge(group);
      group = empty;
    }
    merged.Merge(group);
    EXPECT_EQ(merged, whole);
  }
  SiteStatistics other = whole;
  other.folds[3].sums.Add(kSumX3, 0x1p-500);
  EXPECT_NE(other, whole);
}

TEST(SiteStatistics, NamesOfSumsAreUniqueAndBeginAlike) {
  for (const SiteInfo& info : kSites) {
    const std::vector<std::string> names = SumNames(info.site, {"int8/row", "int4/group64"});
    EXPECT_EQ(names[kSumX4], "x4");
    EXPECT_EQ(names[kSumSequenceAbsmax], "sequence_absmax");
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  }
  EXPECT_EQ(SumNames(Site::kEmbed).size(), kBaseSums);
  EXPECT_EQ(SumNames(Site::kEmbed, {"int8/head", "int8/tensor"}).size(), kBaseSums + 4);  // it has no heads
  EXPECT_EQ(SumNames(Site::kAttnLogits, {"int8/channel", "int8/head"}).size(), kBaseSums + 4);
}

TEST(SiteStatistics, MaximaGrow) {
  std::vector<float> values = {1, 5};
  MergeMaxima(values, {2, 3, 4});
  EXPECT_EQ(values, (std::vector<float>{2, 5, 4}));
  MergeMaxima(values, {});
  EXPECT_EQ(values.size(), 3u);
}

}  // namespace
}  // namespace tare::site_statistics_test
