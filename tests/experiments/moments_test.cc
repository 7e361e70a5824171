// SPDX-License-Identifier: Apache-2.0
// Moments of values whose mean is large beside their deviation, from blocks of a site to a set's measures: against the
// same values without the mean, in any order of merging.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "experiments/model/plan_run.h"
#include "experiments/observe/full_observer.h"
#include "quant/observe/statistics_set.h"
#include "tests/support/golden.h"

namespace tare::moments_test {
namespace {

FullObserver Observer(const Model& model) {
  return FullObserver(SiteSelection::Parse("layer_out[l0]", ModelSitesOf(model)), {});
}

double Named(const Measures& measures, const std::string& name) {
  for (const auto& [key, value] : measures) {
    if (key == name) return value;
  }
  ADD_FAILURE() << "no measure " << name;
  return 0;
}

// Rows of whole numbers, from -9 to 9 and a few far ones, each row about a mean of its own: their moments about the
// mean are those of the same numbers without `above`, which f32 holds beside them.
constexpr int64_t kRows = 24, kColumns = 37;
std::vector<float> Whole(float above, int64_t sequence) {
  std::vector<float> values;
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    const int64_t drawn = (i * i * 7 + sequence * 13 + i / kColumns * 3) % 19 - 9;
    values.push_back(above + static_cast<float>(i % 101 == 5 ? 40 : drawn));
  }
  return values;
}

ObservedSites OfSequences(FullObserver& observer, const std::vector<int64_t>& sequences, float above) {
  for (const int64_t sequence : sequences) {
    std::vector<float> values = Whole(above, sequence);
    observer.Visit({.site = Site::kLayerOut,
                    .layer = 0,
                    .sequence = sequence,
                    .rows = kRows,
                    .first_columns = kColumns,
                    .values = values.data(),
                    .stride = kColumns},
                   0);
  }
  return observer.Take();
}

TEST(Moments, MomentsDoNotSufferFromALargeMean) {
  Model model(GoldenFolder("llama-mha"));
  const SiteKey key{Site::kLayerOut, 0};
  FullObserver observer = Observer(model);
  const auto measured = [&](float above) {
    StatisticsSet set;
    set.MergeSites(OfSequences(observer, {0, 1, 2, 3}, above));
    return AllMeasures(set, key);
  };
  const Measures plain = measured(0);
  for (const float above : {-16.0f, 1024.0f, -262144.0f, 8388608.0f, 0x1p24f - 64}) {
    const Measures m = measured(above);
    EXPECT_DOUBLE_EQ(Named(m, "mean"), Named(plain, "mean") + above);
    for (const char* name : {"variance", "kurtosis", "kurtosis_sequence"})
      EXPECT_NEAR(Named(m, name), Named(plain, name), 1e-13 * Named(plain, name)) << name << " about " << above;
    long double rows = 0;
    for (int64_t sequence = 0; sequence < 4; ++sequence) {
      const std::vector<float> values = Whole(above, sequence);
      for (int64_t r = 0; r < kRows; ++r) {
        const std::span<const float> row(&values[static_cast<size_t>(r * kColumns)], kColumns);
        const long double mean = std::accumulate(row.begin(), row.end(), 0.0L) / kColumns;
        long double squares = 0, fourth = 0;
        for (const long double v : row) squares += (v - mean) * (v - mean), fourth += v * v * v * v / kColumns;
        const long double s2 = squares / (kColumns - 1);
        rows += std::max(0.0L, fourth / (s2 * s2) - 3) / (4 * kRows);
      }
    }
    EXPECT_NEAR(Named(m, "kurtosis_row"), rows, 1e-13 * rows) << above;
  }
}

TEST(Moments, MomentsAboutALargeMeanMergeExactly) {
  Model model(GoldenFolder("llama-mha"));
  FullObserver observer = Observer(model);
  StatisticsSet whole;
  whole.MergeSites(OfSequences(observer, {0, 1, 2, 33, 34}, 5e5f));  // 1 and 33 are of one group
  for (const std::vector<std::vector<int64_t>>& parts :
       {std::vector<std::vector<int64_t>>{{34, 2}, {33, 0}, {1}}, {{1, 33}, {34}, {0}, {2}}, {{0, 1, 2}, {34, 33}}}) {
    StatisticsSet merged;
    for (const std::vector<int64_t>& part : parts) merged.MergeSites(OfSequences(observer, part, 5e5f));
    EXPECT_EQ(merged, whole);
  }
}

TEST(Moments, EqualValuesHaveNoSpreadAndTheirOwnMedian) {
  Model model(GoldenFolder("llama-mha"));
  FullObserver observer = Observer(model);
  for (const float value : {0.1f, 1.0f, -123456.7f, 3e38f, 1e-44f}) {
    std::vector<float> values(3 * 7, value);
    observer.Visit(
        {.site = Site::kLayerOut, .layer = 0, .rows = 3, .first_columns = 7, .values = values.data(), .stride = 7}, 0);
    StatisticsSet set;
    set.MergeSites(observer.Take());
    const Measures m = AllMeasures(set, {Site::kLayerOut, 0});
    EXPECT_EQ(Named(m, "mean"), static_cast<double>(value));
    EXPECT_EQ(Named(m, "variance"), 0) << value;
    EXPECT_TRUE(std::isnan(Named(m, "kurtosis"))) << value;
    for (const char* name : {"median", "p9999"}) EXPECT_LE(Named(m, name), std::fabs(value)) << name;
  }
}

}  // namespace
}  // namespace tare::moments_test
