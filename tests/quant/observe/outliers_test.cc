// SPDX-License-Identifier: Apache-2.0
// Against keeping everything and sorting it; and the merge law: any split, merged in any order, gives equal statistics.
#include "quant/observe/outliers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "quant/base/message.h"

namespace tare::outliers_test {
namespace {

// Against sorting everything.

std::vector<TopValue> SortedTop(std::vector<TopValue> all, size_t k) {
  std::ranges::sort(all, {}, [](const TopValue& v) {
    const Place& p = v.place;
    return std::tuple(-std::fabs(v.value), p.sequence, p.layer, p.head, p.row, p.column);
  });
  all.resize(std::min(k, all.size()));
  return all;
}

// Few distinct magnitudes, so that most ranks are decided by place.
std::vector<TopValue> Ties(size_t n, std::mt19937& random) {
  std::vector<TopValue> values;
  for (size_t i = 0; i < n; ++i) {
    const int64_t row = static_cast<int64_t>(i) / 7;
    values.push_back({static_cast<float>(static_cast<int>(random() % 9) - 4),
                      {row % 3, 1, static_cast<int32_t>(row % 2), row, static_cast<int64_t>(i)}});
  }
  std::ranges::shuffle(values, random);
  return values;
}

TEST(TopValues, KeepsWhatSortingWould) {
  std::mt19937 random(1);
  for (const size_t capacity : {1u, 3u, 100u}) {
    for (const size_t n : {0u, 1u, 99u, 100u, 101u, 2000u}) {
      const std::vector<TopValue> values = Ties(n, random);
      TopValues top(capacity);
      for (const TopValue& v : values) top.Offer(v.value, v.place);
      EXPECT_EQ(top.Sorted(), SortedTop(values, capacity)) << capacity << ' ' << n;
    }
  }
}

TEST(TopValues, AnySplitMergesToTheSame) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 50; ++trial) {
    const std::vector<TopValue> values = Ties(500, random);
    TopValues whole(20);
    for (const TopValue& v : values) whole.Offer(v.value, v.place);
    std::vector<TopValues> parts(1 + random() % 6, TopValues(20));
    for (const TopValue& v : values) parts[random() % parts.size()].Offer(v.value, v.place);
    std::ranges::shuffle(parts, random);
    TopValues merged(20);
    for (const TopValues& part : parts) merged.Merge(part);
    EXPECT_EQ(merged, whole);
  }
}

TEST(TopValues, ThresholdIsTheSmallestKeptMagnitudeOnceFull) {
  TopValues top(2);
  EXPECT_EQ(top.threshold(), 0.0f);
  top.Offer(-5.0f, {});
  EXPECT_EQ(top.threshold(), 0.0f);
  top.Offer(3.0f, {.row = 4});
  EXPECT_EQ(top.threshold(), 3.0f);
  EXPECT_FALSE(top.Admits(2.9f, {}));
  EXPECT_TRUE(top.Admits(-3.0f, {.row = 3}));
  EXPECT_FALSE(top.Admits(3.0f, {.row = 5}));
  top.Offer(-4.0f, {.row = 9});
  EXPECT_EQ(top.threshold(), 4.0f);
}

TEST(TopValues, NanNeverEnters) {
  TopValues top(2);
  top.Offer(std::numeric_limits<float>::quiet_NaN(), {});
  EXPECT_EQ(top.size(), 0u);
}

TEST(TopValues, PlacesAreOrderedFromSequenceToColumn) {
  const Place least{1, 1, 1, 1, 1};
  EXPECT_LT(least, (Place{2, 0, 0, 0, 0}));
  EXPECT_LT(least, (Place{1, 2, 0, 0, 0}));
  EXPECT_LT(least, (Place{1, 1, 2, 0, 0}));
  EXPECT_LT(least, (Place{1, 1, 1, 2, 0}));
  EXPECT_LT(least, (Place{1, 1, 1, 1, 2}));
}

TEST(TopValues, RefusesCapacitiesThatDoNotFit) {
  EXPECT_THROW(TopValues(0), Error);
  TopValues top(2);
  EXPECT_THROW(top.Merge(TopValues(3)), Error);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Values {
  Place first;
  std::vector<float> values;
};

// Rows of a causal matrix and more: lengths from 0 to past the chunk, ties everywhere, a few NaN and infinities.
std::vector<Values> Drawn(size_t n, std::mt19937& random) {
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<Values> runs;
  for (size_t i = 0; i < n; ++i) {
    Values run{{static_cast<int64_t>(i % 3), 2, 1, static_cast<int64_t>(i), static_cast<int64_t>(random() % 5)},
               std::vector<float>(random() % 700)};
    for (float& value : run.values) {
      value = std::round(normal(random) * 4.0f) / 4.0f;
      if (random() % 5000 == 0) value = random() % 2 == 0 ? -kInfinity : kNan;
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

OutlierStatistics Plain(std::span<const Values> runs, size_t capacity) {
  OutlierStatistics statistics(capacity);
  std::vector<TopValue> all;
  for (const Values& run : runs) {
    Place place = run.first;
    for (const float value : run.values) {
      if (std::isfinite(value)) {
        all.push_back({value, place});
        statistics.magnitudes.Add(value);
      } else {
        statistics.AddNonfinite(place);
      }
      ++place.column;
    }
  }
  std::ranges::sort(all, [](const TopValue& a, const TopValue& b) {
    const float magnitude_a = std::fabs(a.value), magnitude_b = std::fabs(b.value);
    return magnitude_a != magnitude_b ? magnitude_a > magnitude_b : a.place < b.place;
  });
  all.resize(std::min(all.size(), capacity));
  for (const TopValue& v : all) statistics.top.Offer(v.value, v.place);
  EXPECT_EQ(statistics.top.Sorted(), all);
  return statistics;
}

OutlierStatistics Streamed(std::span<const Values> runs, size_t capacity) {
  OutlierStatistics statistics(capacity);
  OutlierAccumulator accumulator(capacity);
  for (const Values& run : runs) accumulator.Add(run.values, run.first);
  accumulator.FlushInto(statistics);
  return statistics;
}

TEST(Outliers, AreWhatSortingEverythingGives) {
  std::mt19937 random(1);
  for (const size_t capacity : {1u, 10u, 100u}) {
    const std::vector<Values> runs = Drawn(60, random);
    const OutlierStatistics statistics = Streamed(runs, capacity);
    EXPECT_EQ(statistics, Plain(runs, capacity));
    EXPECT_GT(statistics.nonfinite, 0u);
    EXPECT_EQ(statistics.absmax(), std::fabs(statistics.top.Sorted()[0].value));
  }
}

TEST(Outliers, AnySplitMergedInAnyOrderIsTheSame) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<Values> runs = Drawn(40, random);
    const OutlierStatistics whole = Streamed(runs, 25);
    // Runs are cut in two as well: results do not depend on runs.
    for (size_t i = 0, n = runs.size(); i < n; ++i) {
      const size_t cut = random() % (runs[i].values.size() + 1);
      Values rest{runs[i].first, {runs[i].values.begin() + static_cast<ptrdiff_t>(cut), runs[i].values.end()}};
      rest.first.column += static_cast<int64_t>(cut);
      runs[i].values.resize(cut);
      runs.push_back(std::move(rest));
    }
    std::ranges::shuffle(runs, random);
    std::vector<OutlierStatistics> parts(1 + random() % 5, OutlierStatistics(25));
    OutlierAccumulator accumulator(25);
    for (const Values& run : runs) {
      OutlierStatistics& part = parts[random() % parts.size()];
      if (random() % 2 == 0) accumulator.Begin(part);
      accumulator.Add(run.values, run.first);
      accumulator.FlushInto(part);
    }
    std::ranges::shuffle(parts, random);
    OutlierStatistics merged(25);
    for (const OutlierStatistics& part : parts) merged.Merge(part);
    ASSERT_EQ(merged, whole) << trial;
  }
}

TEST(Outliers, EqualValuesAreKeptByPlace) {
  const std::vector<float> threes(1000, 3.0f);
  OutlierStatistics statistics(2);
  OutlierAccumulator accumulator(2);
  for (const int64_t row : {5, 4, 6}) {
    accumulator.Begin(statistics);
    accumulator.Add(threes, {.row = row, .column = 7});
    accumulator.FlushInto(statistics);
  }
  EXPECT_EQ(statistics.top.Sorted(),
            (std::vector<TopValue>{{3.0f, {.row = 4, .column = 7}}, {3.0f, {.row = 4, .column = 8}}}));
  EXPECT_EQ(statistics.count(), 3000u);
}

TEST(Outliers, NonfiniteValuesAreLocatedAndTakeNoPart) {
  OutlierStatistics statistics;
  OutlierAccumulator accumulator;
  accumulator.Add(std::vector<float>{1.0f, kNan, -kInfinity, 2.0f}, {.sequence = 1, .row = 3, .column = 10});
  accumulator.Add(std::vector<float>{4.0f, kInfinity}, {.sequence = 0, .row = 9});
  accumulator.FlushInto(statistics);
  EXPECT_EQ(statistics.nonfinite, 3u);
  EXPECT_EQ(statistics.first_nonfinite, (Place{.sequence = 0, .row = 9, .column = 1}));
  EXPECT_EQ(statistics.count(), 3u);
  EXPECT_EQ(statistics.absmax(), 4.0f);
  OutlierStatistics earlier;
  earlier.AddNonfinite({});
  statistics.Merge(earlier);
  EXPECT_EQ(statistics.nonfinite, 4u);
  EXPECT_EQ(statistics.first_nonfinite, Place{});
}

TEST(Outliers, NonfiniteValuesBelowAHighThresholdAreStillSeen) {
  OutlierStatistics statistics(1);
  OutlierAccumulator accumulator(1);
  accumulator.Add(std::vector<float>{1e30f}, {});
  accumulator.FlushInto(statistics);
  accumulator.Begin(statistics);
  accumulator.Add(std::vector<float>{1.0f, kNan}, {.row = 1});
  accumulator.FlushInto(statistics);
  EXPECT_EQ(statistics.first_nonfinite, (Place{.row = 1, .column = 1}));
}

TEST(Outliers, NothingIsNothing) {
  OutlierStatistics statistics;
  OutlierAccumulator accumulator;
  accumulator.Add({}, {});
  accumulator.FlushInto(statistics);
  EXPECT_EQ(statistics, OutlierStatistics());
  EXPECT_EQ(statistics.count(), 0u);
  EXPECT_EQ(statistics.absmax(), 0.0f);
}

TEST(Outliers, AFlushStartsAgain) {
  OutlierStatistics first(1), second(1);
  OutlierAccumulator accumulator(1);
  accumulator.Add(std::vector<float>{9.0f, kNan}, {});
  accumulator.FlushInto(first);
  accumulator.Add(std::vector<float>{1.0f}, {});
  accumulator.FlushInto(second);
  EXPECT_EQ(second.count(), 1u);
  EXPECT_EQ(second.nonfinite, 0u);
  EXPECT_EQ(second.absmax(), 1.0f);
}

// More values than the accumulator holds back.
TEST(Outliers, LongStreamsAreCountedInFull) {
  const std::vector<float> values((size_t{1} << 20) + 1, 0.5f);
  OutlierStatistics statistics(1);
  OutlierAccumulator accumulator(1);
  for (int row = 0; row < 20; ++row) accumulator.Add(values, {.row = row});
  accumulator.FlushInto(statistics);
  EXPECT_EQ(statistics.count(), 20 * values.size());
}

TEST(Outliers, CapacitiesMustBeEqual) {
  OutlierStatistics statistics(5);
  OutlierAccumulator accumulator(6);
  accumulator.Add(std::vector<float>{1.0f}, {});
  EXPECT_THROW(accumulator.FlushInto(statistics), Error);
}

}  // namespace

}  // namespace tare::outliers_test
