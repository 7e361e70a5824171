// SPDX-License-Identifier: Apache-2.0
// Differences by hand; intervals with the promised coverage.
#include "experiments/observe/statistics_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "quant/base/message.h"

namespace tare::statistics_diff_test {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

// Sequences of 50 values of a normal law.
StatisticsSet Drawn(double mean, uint64_t seed, int sequences, const std::string& text) {
  StatisticsSet set{.job = {{"sequences_sha256", text}}};
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(mean, 1.0);
  SiteStatistics s(SumNames(Site::kLayerOut).size());
  for (int i = 0; i < sequences; ++i) {
    Fold& fold = s.folds[static_cast<size_t>(i % SiteStatistics::kFolds)];
    ++fold.sequences;
    for (int j = 0; j < 50; ++j) {
      double power = 1;
      const double v = normal(random);
      for (const BaseSum sum : {kSumX, kSumX2, kSumX3, kSumX4}) fold.sums.Add(sum, power *= v);
      ++fold.values;
      ++fold.rows;
    }
  }
  set.sites.emplace(SiteKey{Site::kLayerOut, 0}, s);
  return set;
}

Json RowOf(const Json& diff, const std::string& measure) {
  for (const Json& row : diff["rows"]) {
    if (row["measure"] == measure) return row;
  }
  return {};
}

TEST(StatisticsDiff, NothingDiffersFromItself) {
  const StatisticsSet set = Drawn(0, 1, 40, "t");
  const Json diff = DiffJson(set, set, {});
  EXPECT_TRUE(diff["paired"].get<bool>());
  const Json row = RowOf(diff, "mean");
  EXPECT_EQ(row["difference"], 0.0);
  EXPECT_EQ(row["low"], 0.0);
  EXPECT_EQ(row["high"], 0.0);
}

// The means differ most, by sign, but are none of the measures that few rows are chosen from.
TEST(StatisticsDiff, TheLargestComeFirstWhereRowsAreLimited) {
  const StatisticsSet a = Drawn(0, 1, 40, "t"), b = Drawn(2, 2, 40, "u");
  EXPECT_TRUE(NothingDiffers(DiffJson(a, a, {})));
  const Json diff = DiffJson(a, b, {});
  EXPECT_FALSE(NothingDiffers(diff));
  const auto rows = static_cast<size_t>(
      std::ranges::count_if(diff["rows"], [](const Json& row) { return !row["difference"].is_null(); }));
  const std::string most = DiffTable(diff, 1);
  EXPECT_THAT(most, testing::AnyOf(HasSubstr("  absmax "), HasSubstr("  kurtosis ")));
  EXPECT_THAT(
      most,
      HasSubstr(Formatted(
          "\nthe 1 largest of absmax and kurtosis, relative to A and B, those with * first;\n--all shows {} more\n",
          rows - 1)));
  EXPECT_EQ(std::ranges::count(most, '\n') + static_cast<int64_t>(rows) - 1 - 3,
            std::ranges::count(DiffTable(diff), '\n'));
  EXPECT_EQ(DiffTable(diff, rows), DiffTable(diff));
}

TEST(StatisticsDiff, IntervalsHaveTheirCoverage) {
  int held = 0;
  constexpr int kRounds = 200;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const Json row =
        RowOf(DiffJson(Drawn(0, 2 * round, 32, "a"), Drawn(0.5, 2 * round + 1, 32, "b"), {.draws = 200}), "mean");
    held += row["low"].get<double>() <= 0.5 && 0.5 <= row["high"].get<double>();
  }
  // 95 % of 200 less what a percentile bootstrap of 32 groups is short; 170 is six deviations below.
  EXPECT_GE(held, 170);
}

TEST(StatisticsDiff, EqualSeedsGiveEqualDraws) {
  const StatisticsSet a = Drawn(0, 1, 40, "t"), b = Drawn(0.1, 2, 40, "u");
  EXPECT_EQ(DiffJson(a, b, {}), DiffJson(a, b, {}));
  EXPECT_NE(DiffJson(a, b, {}), DiffJson(a, b, {.seed = 1}));
  EXPECT_FALSE(DiffJson(a, b, {})["paired"].get<bool>());
  EXPECT_THAT(DiffTable(DiffJson(a, b, {})), HasSubstr("kurtosis_row"));
}

// 32 groups whose means differ by 2 of a standard error of 0.035: surely; kurtosis of two normal laws: not.
TEST(StatisticsDiff, DifferencesAreMarkedAfterHolm) {
  StatisticsSet a = Drawn(0, 1, 32, "a"), b = Drawn(2, 2, 32, "b");
  a.job["model"] = "first";
  b.job["model"] = "second";
  const Json diff = DiffJson(a, b, {});
  const Json mean = RowOf(diff, "mean"), kurtosis = RowOf(diff, "kurtosis");
  EXPECT_LT(mean["p"].get<double>(), 1e-10);
  EXPECT_EQ(mean["p_holm"], diff["comparisons"].get<int>() * mean["p"].get<double>());
  EXPECT_EQ(kurtosis["p_holm"], 1.0);
  const std::string table = DiffTable(diff);
  EXPECT_THAT(table, testing::StartsWith("A is first, B is second\n\nlayer_out, layer 0, all positions\n"));
  EXPECT_THAT(table, testing::ContainsRegex("\n  mean  .*\\] \\*\n"));
  EXPECT_THAT(table, testing::ContainsRegex("\n  kurtosis  .*\\]\n"));
}

// Draws repeat the largest value or lack it: that is no distribution of it.
TEST(StatisticsDiff, MaximaHaveNoInterval) {
  StatisticsSet a = Drawn(0, 1, 32, "t"), b = a;
  for (auto* set : {&a, &b}) {
    for (Fold& fold : set->sites.at({Site::kLayerOut, 0}).folds) fold.absmax = set == &a ? 2.0f : 7.0f;
  }
  const Json row = RowOf(DiffJson(a, b, {}), "absmax");
  EXPECT_EQ(row["difference"], 5.0);
  EXPECT_TRUE(row["low"].is_null() && row["high"].is_null() && row["p"].is_null() && row["p_holm"].is_null());
}

// Where all groups are equal, sums in another order differ by their rounding: there is no error, so no p.
TEST(StatisticsDiff, ConstantFiguresHaveNoP) {
  StatisticsSet a{.job = {{"sequences_sha256", "t"}}};
  SiteStatistics s(SumNames(Site::kLayerOut).size());
  for (Fold& fold : s.folds) {
    fold.sequences = fold.rows = fold.values = 3;
    fold.sums.Add(kSumX, 0.1);
  }
  a.sites.emplace(SiteKey{Site::kLayerOut, 0}, s);
  StatisticsSet b = a;
  for (Fold& fold : b.sites.at({Site::kLayerOut, 0}).folds) fold.sums.Add(kSumX, 0.7);
  const Json row = RowOf(DiffJson(a, b, {}), "mean");
  EXPECT_NEAR(row["difference"].get<double>(), 0.7 / 3, 1e-12);
  EXPECT_TRUE(row["p"].is_null());
}

// Where nothing differs a mark comes up in 5 % of whole tables at most, not of rows.
TEST(StatisticsDiff, EqualSetsAreRarelyMarked) {
  int marked = 0;
  for (uint64_t round = 0; round < 60; ++round) {
    const Json diff = DiffJson(Drawn(0, 2 * round, 32, "a"), Drawn(0, 2 * round + 1, 32, "b"), {.draws = 100});
    marked += DiffTable(diff).contains(" *\n");
  }
  EXPECT_LE(marked, 9);  // 3 are expected, 9 is three and a half deviations above
}

// Both sets are compared, and all their rows are one family.
TEST(StatisticsDiff, TheRestIsComparedBesideAllPositions) {
  StatisticsSet a = Drawn(0, 1, 32, "a"), b = Drawn(2, 2, 32, "b");
  const Json alone = DiffJson(a, b, {});
  a.rest = Drawn(5, 3, 32, "a").sites, b.rest = Drawn(5, 4, 32, "b").sites;
  a.skip_first = b.skip_first = 1;
  const Json diff = DiffJson(a, b, {});
  ASSERT_EQ(diff["rows"].size(), 2 * alone["rows"].size());
  EXPECT_EQ(diff["comparisons"].get<int>(), 2 * alone["comparisons"].get<int>());
  const Json& rest = diff["rows"][alone["rows"].size() + 1];
  EXPECT_EQ(rest["measure"], "mean");
  EXPECT_EQ(rest["from"], 1);
  EXPECT_NEAR(rest["a"].get<double>(), 5.0, 0.2);
  EXPECT_EQ(RowOf(diff, "mean")["from"], 0);
  EXPECT_THAT(DiffTable(diff), HasSubstr("layer_out, layer 0, without position 0\n"));
  b.skip_first = 2;
  EXPECT_THROW(DiffJson(a, b, {}), Error);
}

TEST(StatisticsDiff, OneSequenceHasNoInterval) {
  const Json row = RowOf(DiffJson(Drawn(0, 1, 1, "t"), Drawn(1, 2, 1, "u"), {}), "mean");
  EXPECT_TRUE(row["low"].is_null());
  EXPECT_TRUE(row["difference"].is_number());
}

TEST(StatisticsDiff, FilesWithoutACommonSiteAreRefused) {
  const StatisticsSet a = Drawn(0, 1, 2, "t");
  EXPECT_THROW(DiffJson(a, a, {.site = Site::kV}), Error);
  StatisticsSet other = a;
  other.formats = {"int8/row"};
  EXPECT_THROW(DiffJson(a, other, {}), Error);
}

}  // namespace
}  // namespace tare::statistics_diff_test
