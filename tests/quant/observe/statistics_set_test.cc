// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/statistics_set.h"

#include <algorithm>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/support/sums.h"

namespace tare::statistics_set_test {
namespace {

using ::testing::HasSubstr;

StatisticsSet Shard(size_t unit) {
  StatisticsSet set{.job = {{"model", "m"}, {"input_sha256", "aa"}}, .units = {0, 0, 0}, .positions = 3, .tokens = 2};
  set.units[unit] = 1;
  SiteStatistics s(SumNames(Site::kLayerOut).size());
  s.folds[unit].sequences = 1;
  s.folds[unit].sums.Add(kSumX, 0.1 * static_cast<double>(unit + 1));
  set.sites.emplace(SiteKey{Site::kLayerOut, static_cast<int>(unit % 2)}, s);
  return set;
}

std::string Refused(const StatisticsSet& a, const StatisticsSet& b) {
  StatisticsSet merged = a;
  try {
    merged.Merge(b, "A.h5", "B.h5");
  } catch (const Error& error) {
    EXPECT_EQ(merged, a);
    return error.what();
  }
  return "";
}

TEST(StatisticsSet, ShardsMergeToTheWholeInAnyOrder) {
  StatisticsSet a = Shard(0), b = Shard(2);
  EXPECT_FALSE(a.Whole());
  a.Merge(Shard(1), "", "");
  a.Merge(Shard(2), "", "");
  b.Merge(Shard(1), "", "");
  b.Merge(Shard(0), "", "");
  EXPECT_EQ(a, b);
  EXPECT_TRUE(a.Whole());
  EXPECT_EQ(a.sites.size(), 2u);
  EXPECT_EQ(a.positions, 9u);
}

TEST(StatisticsSet, OtherJobsAndRepeatedUnitsAreRefused) {
  StatisticsSet other = Shard(1);
  other.job["input_sha256"] = "bb";
  EXPECT_THAT(Refused(Shard(0), other), HasSubstr("B.h5: got input_sha256 bb, expected aa as in A.h5"));
  other.job.erase("input_sha256");
  EXPECT_THAT(Refused(Shard(0), other), HasSubstr("got input_sha256 nothing"));
  other = Shard(1);
  other.units.push_back(0);
  EXPECT_THAT(Refused(Shard(0), other), HasSubstr("different jobs"));
  EXPECT_THAT(Refused(Shard(0), Shard(0)), HasSubstr("unit 0 of 3 is also in A.h5; expected each shard once"));
}

TEST(StatisticsSet, TheRestMergesToo) {
  StatisticsSet a = Shard(0), b = Shard(1);
  for (StatisticsSet* set : {&a, &b}) set->skip_first = 1, set->rest = set->sites;
  a.Merge(b, "", "");
  EXPECT_EQ(a.rest, a.sites);
  EXPECT_EQ(a.Both().at(1).from, 1);
  EXPECT_EQ(Shard(0).Both().size(), 1u);
  StatisticsSet other = Shard(2);
  other.skip_first = 4;
  EXPECT_THAT(Refused(a, other), HasSubstr("B.h5: got skip_first 4, expected 1 as in A.h5: statistics of different"));
}

TEST(StatisticsSet, OtherChannelsAreRefused) {
  StatisticsSet four = Shard(0), six = Shard(1);
  for (auto& [key, s] : four.sites) s.channel_energy = ExactSums(4);
  EXPECT_EQ(Refused(four, Shard(2)), "");  // which saw none
  for (auto& [key, s] : six.sites) s.channel_energy = ExactSums(6);
  EXPECT_THAT(Refused(four, six), HasSubstr("B.h5: layer_out: got 6 channels, expected the 4 of A.h5"));
}

TEST(StatisticsSet, FindsSumsByName) {
  StatisticsSet set;
  set.formats = {"int8/row"};
  EXPECT_EQ(FindSum(set, Site::kEmbed, "x3"), kSumX3);
  EXPECT_EQ(FindSum(set, Site::kEmbed, "int8/row.error1"), kBaseSums + 1);
  EXPECT_EQ(FindSum(set, Site::kEmbed, "entropy"), std::nullopt);
  EXPECT_TRUE(FindSum(set, Site::kProbs, "entropy").has_value());
}

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
}  // namespace tare::statistics_set_test
