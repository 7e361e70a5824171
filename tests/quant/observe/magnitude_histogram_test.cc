// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/outliers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "quant/base/message.h"

namespace tare::magnitude_histogram_test {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(MagnitudeHistogram, BinsAreTheLeadingBits) {
  EXPECT_EQ(MagnitudeHistogram::BinOf(0.0f), 0);
  EXPECT_EQ(MagnitudeHistogram::BinOf(-0.0f), 0);
  EXPECT_EQ(MagnitudeHistogram::BinOf(1.0f), 127 * 128);
  EXPECT_EQ(MagnitudeHistogram::BinOf(-1.0f), 127 * 128);
  EXPECT_EQ(MagnitudeHistogram::BinOf(1.5f), 127 * 128 + 64);
  EXPECT_EQ(MagnitudeHistogram::BinOf(std::numeric_limits<float>::max()), MagnitudeHistogram::kBins - 1);
  EXPECT_EQ(MagnitudeHistogram::MagnitudeOf(0), 0.0f);
  EXPECT_EQ(MagnitudeHistogram::MagnitudeOf(127 * 128), 1.0f + 1.0f / 256);
}

TEST(MagnitudeHistogram, EmptyHasNoQuantile) {
  const MagnitudeHistogram empty;
  EXPECT_EQ(empty.total(), 0u);
  EXPECT_TRUE(std::isnan(empty.Median()));
  EXPECT_TRUE(empty.Counts().empty());
}

// Powers of two are distinguished exactly; the reported value is the midpoint of the bin that begins there.
TEST(MagnitudeHistogram, QuantileIsTheOrderStatisticOfTheCeiling) {
  MagnitudeHistogram histogram;
  for (const float value : {8.0f, -1.0f, 4.0f, 2.0f}) histogram.Add(value);
  const auto magnitude = [](float value) { return value * (1.0f + 1.0f / 256); };
  EXPECT_EQ(histogram.Quantile(0.0), magnitude(1.0f));
  EXPECT_EQ(histogram.Quantile(0.25), magnitude(1.0f));
  EXPECT_EQ(histogram.Quantile(0.26), magnitude(2.0f));
  EXPECT_EQ(histogram.Median(), magnitude(2.0f));
  EXPECT_EQ(histogram.Quantile(0.75), magnitude(4.0f));
  EXPECT_EQ(histogram.Quantile(1.0), magnitude(8.0f));
  for (const double q : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(histogram.Quantile(q), Error);
}

// The bound of the header, 2^-8 relative above the subnormals, over distributions of every shape; and the oracle sorts.
TEST(MagnitudeHistogram, QuantilesAreWithinTheirBound) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::cauchy_distribution<float> cauchy;
  std::lognormal_distribution<float> lognormal(0.0f, 8.0f);
  std::uniform_real_distribution<float> uniform(1.0f, 2.0f);
  const std::vector<std::function<float()>> distributions{
      [&] { return normal(random); },
      [&] { return cauchy(random); },
      [&] { return lognormal(random); },
      [&] { return uniform(random); },
      [&] { return normal(random) * 0x1p-100f; },
      [&] { return std::copysign(static_cast<float>(random() % 5), normal(random)); },
  };
  double worst = 0.0;
  for (const auto& draw : distributions) {
    for (const size_t n : {1u, 2u, 17u, 5000u}) {
      std::vector<float> magnitudes;
      MagnitudeHistogram histogram;
      for (size_t i = 0; i < n; ++i) {
        const float value = draw();
        magnitudes.push_back(std::fabs(value));
        histogram.Add(value);
      }
      std::ranges::sort(magnitudes);
      for (const double q : {0.0, 0.001, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
        const double exact = magnitudes[static_cast<size_t>(std::max(1.0, std::ceil(q * static_cast<double>(n)))) - 1];
        ASSERT_LE(std::fabs(histogram.Quantile(q) - exact), 0x1p-8 * exact) << q << ' ' << n;
        if (exact > 0) worst = std::max(worst, std::fabs(histogram.Quantile(q) - exact) / exact);
      }
    }
  }
  EXPECT_GT(worst, 0x1p-9);  // the bound is not loose
}

TEST(MagnitudeHistogram, SubnormalsAreWithinTheirAbsoluteBound) {
  for (float value = std::numeric_limits<float>::denorm_min(); value < 0x1p-126f; value *= 1.9f) {
    MagnitudeHistogram histogram;
    histogram.Add(value);
    ASSERT_LE(std::fabs(histogram.Median() - value), value < 0x1p-133f ? 0x1p-133f : 0x1p-134f) << value;
  }
}

TEST(MagnitudeHistogram, CountsGoBeyond32Bits) {
  const uint64_t many = (uint64_t{1} << 33) + 5;
  MagnitudeHistogram histogram;
  histogram.AddCount(100, many);
  histogram.AddCount(7, many - 1);
  histogram.AddCount(100, 1);
  EXPECT_EQ(histogram.total(), 2 * many);
  EXPECT_THAT(histogram.Counts(), ElementsAre(Pair(7, many - 1), Pair(100, many + 1)));
  EXPECT_EQ(histogram.Median(), MagnitudeHistogram::MagnitudeOf(100));
  EXPECT_EQ(histogram.Quantile(0.49), MagnitudeHistogram::MagnitudeOf(7));
}

TEST(MagnitudeHistogram, AnySplitMergesToTheSame) {
  std::mt19937 random(2);
  std::cauchy_distribution<float> cauchy;
  MagnitudeHistogram whole;
  std::vector<MagnitudeHistogram> parts(5);
  for (int i = 0; i < 5000; ++i) {
    const float value = cauchy(random);
    whole.Add(value);
    parts[random() % parts.size()].Add(value);
  }
  std::ranges::shuffle(parts, random);
  MagnitudeHistogram merged;
  for (const MagnitudeHistogram& part : parts) merged.Merge(part);
  EXPECT_EQ(merged, whole);
  merged.Add(1.0f);
  EXPECT_NE(merged, whole);
}

TEST(MagnitudeHistogram, CountsRebuildIt) {
  MagnitudeHistogram histogram;
  for (const float value : {0.0f, 1.0f, 1.0f, -3.0f, 1e30f}) histogram.Add(value);
  MagnitudeHistogram again;
  for (const auto& [bin, count] : histogram.Counts()) again.AddCount(bin, count);
  EXPECT_EQ(again, histogram);
}

TEST(MagnitudeHistogram, AddingNothingAllocatesNothing) {
  MagnitudeHistogram histogram;
  histogram.AddCount(5, 0);
  histogram.AddPage(3, std::array<uint64_t, MagnitudeHistogram::kPageBins>{});
  EXPECT_EQ(histogram, MagnitudeHistogram());
}

TEST(MagnitudeHistogram, RefusesBinsAndTotalsThatCannotBe) {
  MagnitudeHistogram histogram;
  EXPECT_THROW(histogram.AddCount(-1, 1), Error);
  EXPECT_THROW(histogram.AddCount(MagnitudeHistogram::kBins, 1), Error);
  EXPECT_THROW(histogram.Add(std::numeric_limits<float>::infinity()), Error);
  EXPECT_THROW(histogram.Add(std::numeric_limits<float>::quiet_NaN()), Error);
  histogram.AddCount(1, std::numeric_limits<uint64_t>::max());
  EXPECT_THROW(histogram.AddCount(2, 1), Error);
  MagnitudeHistogram other = histogram;
  EXPECT_THROW(other.Merge(histogram), Error);
  EXPECT_EQ(other, histogram);
}

// In double, 2^64-1 is 2^64: the rank must not leave 64 bits.
TEST(MagnitudeHistogram, FindsTheLastOfTheMostCounts) {
  MagnitudeHistogram histogram;
  histogram.AddCount(1, std::numeric_limits<uint64_t>::max() - 1);
  histogram.AddCount(2, 1);
  EXPECT_EQ(histogram.Quantile(1.0), MagnitudeHistogram::MagnitudeOf(2));
  EXPECT_EQ(histogram.Median(), MagnitudeHistogram::MagnitudeOf(1));
}

// Against the histogram filled one value at a time.

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

MagnitudeHistogram OneByOne(std::span<const float> values) {
  MagnitudeHistogram histogram;
  for (const float value : values) {
    if (std::isfinite(value)) histogram.Add(value);
  }
  return histogram;
}

MagnitudeHistogram Counted(MagnitudeCounter& counter, std::span<const float> values) {
  MagnitudeHistogram histogram;
  counter.Count(values);
  counter.FlushInto(histogram);
  return histogram;
}

TEST(MagnitudeCounter, CountsRunsOfEveryLength) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  MagnitudeCounter counter;
  for (size_t n = 0; n < 40; ++n) {
    std::vector<float> values(n + 3);
    for (float& value : values) value = normal(random);
    // Three starts, so that runs are not aligned either.
    for (size_t start = 0; start < 3; ++start) {
      const std::span<const float> run = std::span(values).subspan(start, n);
      EXPECT_EQ(Counted(counter, run), OneByOne(run)) << n << ' ' << start;
    }
  }
}

TEST(MagnitudeCounter, CountsEveryBitPatternOfTheBins) {
  std::vector<float> values;
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (const uint32_t low : {0u, 0x8000u, 0xffffu}) values.push_back(std::bit_cast<float>(high << 16 | low));
  }
  MagnitudeCounter counter;
  EXPECT_EQ(Counted(counter, values), OneByOne(values));
  EXPECT_EQ(Counted(counter, {}), MagnitudeHistogram());  // the non-finite ones are not left behind
}

TEST(MagnitudeCounter, FindsZerosFarBelowTheRest) {
  const std::vector<float> values{0.0f, -1e30f, 0.0f, 1e-30f, 1e-45f, 5.0f};
  MagnitudeCounter counter;
  EXPECT_EQ(Counted(counter, values), OneByOne(values));
  EXPECT_EQ(Counted(counter, values), OneByOne(values));
}

TEST(MagnitudeCounter, GathersRunsUntilTheFlush) {
  const std::vector<float> small{1e-20f, 2e-20f};
  const std::vector<float> large{-3e20f};
  MagnitudeCounter counter;
  counter.Count(large);
  counter.Count(small);
  EXPECT_EQ(counter.pending(), 3u);
  MagnitudeHistogram histogram;
  counter.FlushInto(histogram);
  EXPECT_EQ(histogram, OneByOne(std::vector<float>{1e-20f, 2e-20f, -3e20f}));
  EXPECT_EQ(counter.pending(), 0u);
}

TEST(MagnitudeCounter, ReturnsTheLargestMagnitudeOfTheRun) {
  MagnitudeCounter counter;
  EXPECT_EQ(counter.Count({}), 0.0f);
  EXPECT_EQ(counter.Count(std::vector<float>{1.0f, -3.0f, 2.0f}), 3.0f);
  EXPECT_EQ(counter.Count(std::vector<float>{1.0f}), 1.0f);
  EXPECT_EQ(counter.Count(std::vector<float>{-0.0f}), 0.0f);
  EXPECT_EQ(counter.Count(std::vector<float>{1.0f, -kInfinity, 5.0f}), kInfinity);
  EXPECT_TRUE(std::isnan(counter.Count(std::vector<float>{kInfinity, -kNan, 5.0f})));
}

TEST(MagnitudeCounter, AThousandRepeatsOfOneValueAreAThousand) {
  MagnitudeCounter counter;
  EXPECT_EQ(Counted(counter, std::vector<float>(1001, 3.0f)).Counts(),
            (std::vector<std::pair<int, uint64_t>>{{MagnitudeHistogram::BinOf(3.0f), 1001}}));
}

}  // namespace

}  // namespace tare::magnitude_histogram_test
