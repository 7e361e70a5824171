// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/statistics_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"

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
  EXPECT_EQ(set.FindSum(Site::kEmbed, "x3"), kSumX3);
  EXPECT_EQ(set.FindSum(Site::kEmbed, "int8/row.error1"), kBaseSums + 1);
  EXPECT_EQ(set.FindSum(Site::kEmbed, "entropy"), std::nullopt);
  EXPECT_TRUE(set.FindSum(Site::kProbs, "entropy").has_value());
}

}  // namespace
}  // namespace tare::statistics_set_test
