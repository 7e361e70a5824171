// SPDX-License-Identifier: Apache-2.0
#include "quant/calibrate/static_scales.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "quant/calibrate/clipping.h"

namespace tare::static_scales_test {
namespace {

using ::testing::HasSubstr;

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
  const StaticScales scales(set);
  EXPECT_EQ(scales.Clips(RuleOf("q=int8/tensor+static"), {Site::kQ, 0, 0, 1}), std::vector<float>{20.0f});
  EXPECT_EQ(scales.Clips(RuleOf("q=int8/head+static"), {Site::kQ, 0, 0, 1}), std::vector<float>{10.0f});
  EXPECT_NEAR(scales.Clips(RuleOf("q=int8/head+static+p50"), {Site::kQ, 0, 1, 1})[0], 10.0f, 10 * 0x1p-8);
  EXPECT_EQ(scales.Clips(RuleOf("q=int4/head+static+mse"), {Site::kQ, 0, 1, 1})[0],
            LeastErrorClip(set.sites.at({Site::kQ, 0, 1, 1}).outliers.magnitudes, 20, Format::kInt4));
  Rule channel = RuleOf("q=int8/head+static");
  channel.granularity = {Granularity::Kind::kChannel, 0};
  EXPECT_EQ(scales.Clips(channel, {Site::kQ, 0, 1, 1}), (std::vector<float>{1, 2}));
}

TEST(StaticScales, WhatWasNotSeenIsRefused) {
  const StatisticsSet set = Example();
  const auto refused = [&](const std::string& rule, int layer, int head) {
    try {
      StaticScales(set).Clips(RuleOf(rule), {Site::kQ, layer, head, 1});
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

}  // namespace
}  // namespace tare::static_scales_test
