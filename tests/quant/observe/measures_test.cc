// SPDX-License-Identifier: Apache-2.0
// Figures from sums set by hand.
#include "quant/observe/statistics_set.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tare::measures_test {
namespace {

double Named(const Measures& measures, const std::string& name) {
  for (const auto& [key, value] : measures) {
    if (key == name) return value;
  }
  ADD_FAILURE() << "no measure " << name;
  return 0;
}

PlainSums Sums(Site site, const std::vector<std::string>& names, const std::map<std::string, double>& values) {
  PlainSums sums{.sequences = 2, .rows = 4, .values = 100, .absmax = 3.0f, .sums = {}};
  sums.sums.resize(SumNames(site, {"int8/row"}).size());
  for (size_t i = 0; i < names.size(); ++i) {
    if (values.contains(names[i])) sums.sums[i] = values.at(names[i]);
  }
  return sums;
}

TEST(Measures, OfAMapByHand) {
  const std::vector<std::string> names = SumNames(Site::kProbs, {"int8/row"});
  const Measures m = SumMeasures(Site::kProbs, names,
                                 Sums(Site::kProbs, names,
                                      {{"x2", 100},
                                       {"magnitude", 10},
                                       {"entropy", 2},
                                       {"sink_sequences", 1},
                                       {"blocks", 8},
                                       {"blocks_under_0.01", 2},
                                       {"entries_under_0.1", 50},
                                       {"entry_mass_under_0.1", 1},
                                       {"marked_rows", 2},
                                       {"answer_mass", 1},
                                       {"int8/row.error2", 1},
                                       {"int8/row.error1", 2},
                                       {"int8/row.product", 50},
                                       {"int8/row.square", 100}}));
  EXPECT_EQ(Named(m, "absmax"), 3.0);
  EXPECT_EQ(Named(m, "entropy"), 0.5);
  EXPECT_EQ(Named(m, "sink_rate"), 0.5);
  EXPECT_EQ(Named(m, "blocks_under_0.01"), 0.25);
  EXPECT_EQ(Named(m, "entries_under_0.1"), 0.5);
  EXPECT_EQ(Named(m, "entry_mass_under_0.1"), 0.1);
  EXPECT_EQ(Named(m, "answer_mass"), 0.5);
  EXPECT_DOUBLE_EQ(Named(m, "int8/row.sqnr_db"), 20.0);
  EXPECT_EQ(Named(m, "int8/row.cosine"), 0.5);
  EXPECT_EQ(Named(m, "int8/row.relative_l1"), 0.2);
}

// Four rows whose sum is 3; and rows that sum to 1, but for rounding.
TEST(Measures, WhatRowsLackOfOneIsASinksShare) {
  const std::vector<std::string> names = SumNames(Site::kProbs);
  const auto share = [&](double x) {
    return Named(SumMeasures(Site::kProbs, names, Sums(Site::kProbs, names, {{"x", x}})), "sink_share");
  };
  EXPECT_EQ(share(3), 0.25);
  EXPECT_EQ(share(4 - 1e-7), 0);
  EXPECT_EQ(share(4 + 1e-7), 0);
}

TEST(Measures, OfADifferenceByHand) {
  const std::vector<std::string> names = SumNames(Site::kDifference);
  const Measures m = SumMeasures(
      Site::kDifference, names,
      Sums(Site::kDifference, names, {{"x2", 1}, {"first_map_x2", 4}, {"negative_mass", 1}, {"cancellation", 3}}));
  EXPECT_EQ(Named(m, "cancellation_pooled"), 0.5);
  EXPECT_EQ(Named(m, "negative_mass"), 0.25);
  EXPECT_EQ(Named(m, "cancellation"), 0.75);
  EXPECT_TRUE(std::isnan(Named(m, "answer_mass")));  // nothing was marked
}

TEST(Measures, SumsAddUp) {
  PlainSums a{.sequences = 1, .rows = 2, .values = 3, .absmax = 4.0f, .sums = {1, 2}};
  a.Add({.sequences = 1, .rows = 1, .values = 1, .absmax = 5.0f, .sums = {10, 20}});
  EXPECT_EQ(a.sequences, 2);
  EXPECT_EQ(a.absmax, 5.0f);
  EXPECT_EQ(a.sums[1], 22.0L);
  PlainSums empty;
  empty.Add(a);
  EXPECT_EQ(empty.sums[0], 11.0L);
}

// Groups of sequences as a bootstrap draws them, one twice; values are `about` and whole numbers above it.
TEST(Measures, MomentsOfGroupsAddUp) {
  const auto added = [](double about) {
    PlainSums all;
    for (const auto& [first, times] : {std::pair{0, 1}, {3, 2}, {-2, 1}}) {
      Fold fold(SumNames(Site::kLayerOut).size());
      for (int i = first; i < first + 5; ++i) {
        const double x = about + i * i;
        ++fold.values;
        double power = 1;
        for (const size_t sum : {kSumX, kSumX2, kSumX3, kSumX4}) fold.sums.Add(sum, power *= x);
      }
      for (int i = 0; i < times; ++i) all.Add(PlainSums::Of(fold));
    }
    return all.powers;
  };
  const double values[] = {0, 1, 4, 9, 16, 9, 16, 25, 36, 49, 9, 16, 25, 36, 49, 4, 1, 0, 1, 4};
  double mean = 0, m2 = 0, m4 = 0;
  for (const double v : values) mean += v / 20;
  for (const double v : values) m2 += (v - mean) * (v - mean) / 20, m4 += std::pow(v - mean, 4) / 20;
  for (const double about : {0.0, 4096.0}) {  // whose fourth power is exact in double
    EXPECT_DOUBLE_EQ(added(about).Mean(), mean + about);
    EXPECT_DOUBLE_EQ(added(about).Variance(), m2);
    EXPECT_DOUBLE_EQ(added(about).Kurtosis(), m4 / (m2 * m2));
  }
}

TEST(Measures, EnergyOfTheTopPercent) {
  ExactSums energy(150);  // the top two
  for (size_t i = 0; i < 150; ++i) energy.Add(i, 1.0);
  energy.Add(7, 99.0);
  energy.Add(9, 49.0);
  EXPECT_DOUBLE_EQ(TopChannelEnergy(energy), 150.0 / 298.0);
  EXPECT_TRUE(std::isnan(TopChannelEnergy(ExactSums())));
}

TEST(Measures, MassiveIsAHundredAndAThousandMedians) {
  OutlierStatistics outliers;
  for (int i = 0; i < 1000; ++i) outliers.magnitudes.Add(0.2f);
  for (const float v : {150.0f, 250.0f, 260.0f}) outliers.magnitudes.Add(v);
  EXPECT_EQ(MassiveActivations(outliers), 2u);  // above 200
  OutlierStatistics small;
  for (int i = 0; i < 10; ++i) small.magnitudes.Add(1e-3f);
  small.magnitudes.Add(99.0f);
  small.magnitudes.Add(102.0f);
  EXPECT_EQ(MassiveActivations(small), 1u);
}

}  // namespace
}  // namespace tare::measures_test
