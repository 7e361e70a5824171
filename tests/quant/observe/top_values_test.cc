// SPDX-License-Identifier: Apache-2.0
// Against sorting everything.
#include "quant/observe/top_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "quant/base/error.h"

namespace tare {
namespace {

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

}  // namespace
}  // namespace tare
