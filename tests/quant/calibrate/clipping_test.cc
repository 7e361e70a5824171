// SPDX-License-Identifier: Apache-2.0
// By hand, against an exhaustive search, and by each calibrator's purpose.
#include "quant/calibrate/clipping.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/format/grid.h"
#include "quant/format/round.h"
#include "tests/support/call.h"

namespace tare::clipping_test {
namespace {

using ::testing::HasSubstr;

// A normal law, and one value far outside.
std::vector<float> WithOutlier(float outlier) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(20000);
  for (float& v : values) v = normal(random);
  values[77] = outlier;
  return values;
}

MagnitudeHistogram HistogramOf(const std::vector<float>& values) {
  MagnitudeHistogram histogram;
  for (const float v : values) histogram.Add(v);
  return histogram;
}

double ErrorOf(const std::vector<float>& values, float clip, Format format) {
  const Scale scale = ScaleFor(clip, format);
  double sum = 0;
  for (const float v : values) sum += std::pow(v - CodeOf(v, scale.inv, format) * static_cast<double>(scale.scale), 2);
  return sum;
}

TEST(Clip, PercentileIsAnOrderStatistic) {
  const std::vector<float> values = {-4, 1, 3, -2};
  EXPECT_EQ(PercentileClip(values, 100), 4.0f);
  EXPECT_EQ(PercentileClip(values, 75), 3.0f);
  EXPECT_EQ(PercentileClip(values, 50), 2.0f);
  EXPECT_EQ(PercentileClip(values, 1), 1.0f);
  EXPECT_EQ(PercentileClip(std::vector<float>{}, 50), 0.0f);
  EXPECT_THROW(PercentileClip(values, 0), Error);
  EXPECT_THROW(PercentileClip(values, 101), Error);
  const std::vector<float> many = WithOutlier(100);
  EXPECT_NEAR(PercentileClip(HistogramOf(many), 100, 99.9), PercentileClip(many, 99.9), 0x1p-8 * 4);
  EXPECT_EQ(PercentileClip(HistogramOf(many), 100, 100), 100.0f);
}

TEST(Clip, LeastErrorIsNoWorseThanAnyOther) {
  for (const Format format : {Format::kInt8, Format::kInt6, Format::kInt4}) {
    const std::vector<float> values = WithOutlier(20);
    const double least = ErrorOf(values, LeastErrorClip(values, format), format);
    for (int i = 1; i <= kClips; ++i) EXPECT_LE(least, ErrorOf(values, 20.0f * static_cast<float>(i) / kClips, format));
    // The histogram's midpoints move every value by at most 0.4 %: the error it finds is near the least.
    const float of_histogram = LeastErrorClip(HistogramOf(values), 20, format);
    EXPECT_LE(ErrorOf(values, of_histogram, format), 1.05 * least) << Name(format);
  }
}

TEST(Clip, FewBitsClipMore) {
  const std::vector<float> values = WithOutlier(20);
  const MagnitudeHistogram h = HistogramOf(values);
  EXPECT_LT(LeastErrorClip(h, 20, Format::kInt4), LeastErrorClip(h, 20, Format::kInt6));
  EXPECT_LT(LeastErrorClip(h, 20, Format::kInt6), LeastErrorClip(h, 20, Format::kInt8));
  EXPECT_LT(EntropyClip(h, 20, Format::kInt8), 10.0f);  // the lone outlier is not worth its range
  EXPECT_GT(EntropyClip(h, 20, Format::kInt8), 1.0f);
}

TEST(Clip, AnEvenLawIsNotClipped) {
  std::vector<float> values;
  for (int i = 1; i <= 4096; ++i) values.push_back(static_cast<float>(i) / 4096);
  EXPECT_GT(LeastErrorClip(values, Format::kInt8), 0.97f);
  EXPECT_GT(LeastErrorClip(HistogramOf(values), 1, Format::kInt8), 0.97f);
  EXPECT_GT(EntropyClip(HistogramOf(values), 1, Format::kInt8), 0.9f);
}

TEST(Clip, NothingAndZerosHaveNoClip) {
  const std::vector<float> zeros(10);
  EXPECT_EQ(LeastErrorClip(zeros, Format::kInt8), 0.0f);
  EXPECT_EQ(LeastErrorClip(HistogramOf(zeros), 0, Format::kInt8), 0.0f);
  EXPECT_EQ(EntropyClip(HistogramOf(zeros), 0, Format::kInt8), 0.0f);
  EXPECT_EQ(PercentileClip(MagnitudeHistogram(), 0, 99), 0.0f);
}

StatisticsSet Example() {
  StatisticsSet set;
  for (const int head : {0, 1}) {
    SiteStatistics s(SumNames(Site::kQ).size());
    for (int i = 1; i <= 1000; ++i) {
      const float value = static_cast<float>(i * (head + 1)) / 100;
      s.outliers.magnitudes.Add(value);
      s.outliers.top.Offer(value, {0, 0, head, i, 0});
    }
    s.channel_absmax = {1.0f, 2.0f};
    set.sites.emplace(SiteKey{Site::kQ, 0, head, 1}, s);
  }
  return set;
}

Rule RuleOf(const std::string& text) { return Plan::Parse(text).rules().front(); }

TEST(StaticScales, FollowTheRule) {
  const StatisticsSet set = Example();
  EXPECT_EQ(StaticClips(set, RuleOf("q=int8/tensor+static"), {Site::kQ, 0, 0, 1}), std::vector<float>{20.0f});
  EXPECT_EQ(StaticClips(set, RuleOf("q=int8/head+static"), {Site::kQ, 0, 0, 1}), std::vector<float>{10.0f});
  EXPECT_NEAR(StaticClips(set, RuleOf("q=int8/head+static+p50"), {Site::kQ, 0, 1, 1})[0], 10.0f, 10 * 0x1p-8);
  EXPECT_EQ(StaticClips(set, RuleOf("q=int4/head+static+mse"), {Site::kQ, 0, 1, 1})[0],
            LeastErrorClip(set.sites.at({Site::kQ, 0, 1, 1}).outliers.magnitudes, 20, Format::kInt4));
  Rule channel = RuleOf("q=int8/head+static");
  channel.granularity = {Granularity::Kind::kChannel, 0};
  EXPECT_EQ(StaticClips(set, channel, {Site::kQ, 0, 1, 1}), (std::vector<float>{1, 2}));
}

TEST(StaticScales, WhatWasNotSeenIsRefused) {
  const StatisticsSet set = Example();
  const auto refused = [&](const std::string& rule, int layer, int head) {
    try {
      StaticClips(set, RuleOf(rule), {Site::kQ, layer, head, 1});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refused("q=int8/tensor+static", 3, 0), HasSubstr("nothing of layer 3, q"));
  EXPECT_THAT(refused("q=int8/head+static", 0, 5), HasSubstr("nothing of layer 0, head 5, map 1, q"));
}

TEST(StaticScales, CalibratorsByName) {
  const StatisticsSet set = Example();
  const OutlierStatistics& outliers = set.sites.at({Site::kQ, 0, 0, 1}).outliers;
  for (const NamedCalibration& named : kCalibrations) {
    const float clip = ClipOf(outliers, Format::kInt8, named.calibration);
    EXPECT_GT(clip, 0.0f) << named.name;
    EXPECT_LE(clip, 10.0f) << named.name;
  }
  EXPECT_EQ(ClipOf(outliers, Format::kInt8, kCalibrations[0].calibration), 10.0f);
}

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using ::testing::ThrowsMessage;

LevelCounts CountsOf(const std::vector<float>& values) {
  LevelCounts counts;
  counts.Add(values, 0, 1);
  return counts;
}

// The least loss of sorted values in so many runs, by trying all ends of the first.
double LeastLoss(const std::vector<float>& sorted, size_t begin, int levels) {
  if (begin == sorted.size()) return 0;
  if (levels == 0) return std::numeric_limits<double>::infinity();
  double least = std::numeric_limits<double>::infinity(), sum = 0, squares = 0;
  for (size_t end = begin; end < sorted.size(); ++end) {
    sum += sorted[end];
    squares += double{sorted[end]} * sorted[end];
    const double loss = squares - sum * sum / static_cast<double>(end + 1 - begin);
    least = std::min(least, loss + LeastLoss(sorted, end + 1, levels - 1));
  }
  return least;
}

TEST(LevelCounts, ValuesAreCountedAtTheirBinsMiddle) {
  LevelCounts counts;
  counts.Add(std::vector<float>{3.0f, 3.0001f, 5.0f, -1e30f, 1e30f, 2.9999f}, 3, 2);  // 0, 0.0002, 4, ends, -0.0002
  EXPECT_EQ(counts.at(2048), 2);
  EXPECT_EQ(counts.at(2047), 1);
  EXPECT_EQ(counts.at(2048 + 4 * 128), 1);
  EXPECT_EQ(counts.at(0), 1);
  EXPECT_EQ(counts.at(LevelCounts::kBins - 1), 1);
  EXPECT_EQ(counts.total(), 6);
  EXPECT_EQ(LevelCounts::Middle(2048), 1.0 / 256);
  EXPECT_EQ(LevelCounts::Middle(0), -16 + 1.0 / 256);
  LevelCounts twice = counts;
  twice += counts;
  EXPECT_EQ(twice.at(2048), 4);
}

TEST(BestLevels, NoDivisionLosesLess) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> bin(-300, 300);
  for (int levels = 2; levels <= 5; ++levels) {
    std::vector<float> values(18);
    for (float& x : values) x = static_cast<float>(bin(random)) / 128 + 1.0f / 256;  // middles of bins
    std::ranges::sort(values);
    const LevelCounts counts = CountsOf(values);
    const std::vector<float> best = BestLevels(counts, levels);
    // Levels are rounded to 0.001, which adds at most 0.0005^2 to the mean.
    const double least = LeastLoss(values, 0, levels) / static_cast<double>(values.size());
    EXPECT_NEAR(LevelLoss(counts, best), least, 2.5e-7 + 1e-12) << levels;
    EXPECT_GE(LevelLoss(counts, best), least - 1e-12) << levels;
  }
}

// A million values: the levels of Lloyd and Max, within their sampling error and half a bin.
TEST(BestLevels, OfANormalLaw) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> values(1000000);
  for (float& x : values) x = normal(random);
  EXPECT_THAT(BestLevels(CountsOf(values), 8), Pointwise(FloatNear(0.02f), kLloydMax3Levels));
  EXPECT_NEAR(LevelLoss(CountsOf(values), kLloydMax3Levels), 0.0345, 0.0005);
}

TEST(BestLevels, AsManyLevelsAsValuesLoseNothing) {
  const LevelCounts counts = CountsOf({-1.0f, 0.5f, 0.5f, 2.0f});
  EXPECT_THAT(BestLevels(counts, 3), ElementsAre(-0.996f, 0.504f, 2.004f));  // middles
  EXPECT_NEAR(LevelLoss(counts, BestLevels(counts, 3)), 0, 1e-6);
  EXPECT_THAT(Call([&] { BestLevels(counts, 4); }),
              ThrowsMessage<Error>(HasSubstr("got values in 3 of the bins, expected at least 4")));
  EXPECT_EQ(LevelLoss(LevelCounts(), kLloydMax2Levels), 0);
}

}  // namespace
}  // namespace tare::clipping_test
