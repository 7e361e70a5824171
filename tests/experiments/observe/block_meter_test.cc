// SPDX-License-Identifier: Apache-2.0
// One block by hand; whole models are in full_observer_test.cc.
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "experiments/observe/full_observer.h"
#include "quant/observe/statistics_set.h"

namespace tare::block_meter_test {
namespace {

SiteBlock Causal(Site site, int map, std::vector<float>& values) {
  return {.site = site,
          .layer = 0,
          .sequence = 3,
          .head = 0,
          .map = map,
          .first_row = 0,
          .rows = 2,
          .first_columns = 1,
          .column_step = 1,
          .values = values.data(),
          .stride = 2};
}

TEST(BlockMeter, MeasuresHiddenRowsAndChannels) {
  const MarkedSpans none;
  const ValueStore no_values;
  const SiteSelection all;
  const WideScales no_scales(all, {});
  BlockMeter meter({}, none, no_values, no_scales, 0);
  std::vector<float> values = {3, -4, 99, 0, 1, 99};
  const BlockMeasures& m =
      meter.Measure({.site = Site::kLayerOut, .rows = 2, .first_columns = 2, .values = values.data(), .stride = 3});
  EXPECT_EQ(m.rest.rows, 2u);
  EXPECT_EQ(m.rest.values, 4u);
  EXPECT_EQ(m.rest.absmax, 4.0f);
  EXPECT_EQ(m.rest.largest, 3.0f);
  EXPECT_EQ(m.rest.largest_row_norm, 5.0f);
  EXPECT_EQ(m.row_sums[kSumX], -1.0);
  EXPECT_EQ(m.row_sums[kSumX2], 25.0);
  EXPECT_EQ(m.row_sums[kSumRowNorm], 5.0);
  EXPECT_EQ(m.row_sums[m.sums + kSumMagnitude], 1.0);
  EXPECT_EQ(m.rest.channel_absmax, (std::vector<float>{3, 4}));
  EXPECT_EQ(m.rest.channel_energy, (std::vector<double>{9, 17}));
  EXPECT_EQ(m.row_absmax, (std::vector<float>{4, 1}));
}

// Sums of errors join exact sums, which hold no infinity: of no finite row, under no format.
TEST(BlockMeter, ErrorsOfTheLargestAndSmallestValuesAreFinite) {
  constexpr float kLargest = std::numeric_limits<float>::max(), kSmallest = std::numeric_limits<float>::denorm_min();
  std::string names;
  for (const char* format : {"int8/row", "int4/row", "int6/block16", "int4/tensor"}) names += std::string(format) + ",";
  const std::vector<MeasuredFormat> formats =
      ParseMeasuredFormats(names +
                           "mxfp4,mxfp4:ceil,mxfp4:rceil,mxfp4:even,mxfp6e2m3,mxfp8e4m3,mxfp8e5m2,mxint8,nvfp4,"
                           "fp8e4m3/row,fp8e5m2/row,nf4/row");
  const MarkedSpans none;
  const ValueStore no_values;
  const SiteSelection all;
  const WideScales no_scales(all, {});
  BlockMeter meter(formats, none, no_values, no_scales, 0);
  for (std::vector<float> values : {std::vector{kLargest, -kLargest, 0.7f * kLargest, 0.0f},
                                    {0.9f * kLargest, kLargest, kSmallest, -1.0f},
                                    {kSmallest, -kSmallest, 3 * kSmallest, 0.0f},
                                    {1e-38f, kSmallest, -1e-40f, 0.0f},
                                    {0.0f, -0.0f, 0.0f, 0.0f}}) {
    const BlockMeasures& m =
        meter.Measure({.site = Site::kLayerOut, .rows = 1, .first_columns = 4, .values = values.data(), .stride = 4});
    for (size_t i = 0; i < m.sums; ++i)
      EXPECT_TRUE(std::isfinite(m.row_sums[i])) << values[0] << " " << SumNames(Site::kLayerOut, NamesOf(formats))[i];
  }
}

// Blocks of v are of 32 tokens of a channel: 7 becomes 6, 2.5 becomes 2, and token 32 begins another, 0.4 with 0.375.
TEST(BlockMeter, BlocksOfVLieAlongTheTokens) {
  const MarkedSpans none;
  const ValueStore no_values;
  const SiteSelection all;
  const std::vector<MeasuredFormat> formats = ParseMeasuredFormats("int8/row,mxfp4");
  const WideScales no_scales(all, formats);
  BlockMeter meter(formats, none, no_values, no_scales, 0);
  std::vector<float> values(33 * 3, 0.0f);  // two channels and what is beside them
  const auto at = [&](int64_t token) -> float& { return values[static_cast<size_t>(token * 3)]; };
  at(0) = 7.0f, at(1) = 2.5f, at(32) = 0.4f;
  at(5) = NAN;  // a row that takes no part
  const BlockMeasures& m = meter.Measure(
      {.site = Site::kV, .layer = 0, .head = 0, .rows = 33, .first_columns = 2, .values = values.data(), .stride = 3});
  const auto error2 = [&](size_t row) { return m.row_sums[(row + 1) * m.sums - 4]; };
  EXPECT_EQ(error2(0), 1.0);
  EXPECT_EQ(error2(1), 0.25);
  EXPECT_EQ(error2(2), 0.0);
  EXPECT_NEAR(error2(32), 0.025 * 0.025, 1e-8);
  EXPECT_EQ(m.rest.rows, 32u);
}

TEST(BlockMeter, TheDifferenceUsesItsOwnFirstMap) {
  const MarkedSpans none;
  const ValueStore no_values;
  const SiteSelection all;
  const WideScales no_scales(all, {});
  BlockMeter meter({}, none, no_values, no_scales, 0);
  std::vector<float> first = {1, 0, 0.6f, 0.8f}, second = {1, 0, 0.5f, 0.5f}, difference = {0.5f, 0, 0.3f, -0.4f};
  meter.Measure(Causal(Site::kProbs, 1, first));
  meter.Measure(Causal(Site::kProbs, 2, second));
  const BlockMeasures& m = meter.Measure(Causal(Site::kDifference, 0, difference));
  constexpr size_t kNegative = kBaseSums, kCancellation = kBaseSums + 1;
  EXPECT_EQ(SumNames(Site::kDifference)[kCancellation], "cancellation");
  EXPECT_FLOAT_EQ(static_cast<float>(m.row_sums[kCancellation]), 0.5f);
  EXPECT_FLOAT_EQ(static_cast<float>(m.row_sums[m.sums + kCancellation]), 0.5f);
  EXPECT_FLOAT_EQ(static_cast<float>(m.row_sums[m.sums + kNegative]), 0.4f);
  EXPECT_EQ(m.rest.channel_absmax.size(), 0u);
}

TEST(BlockMeter, TheSinkIsTheFirstKey) {
  const MarkedSpans none;
  const ValueStore no_values;
  const SiteSelection all;
  const WideScales no_scales(all, {});
  BlockMeter meter({}, none, no_values, no_scales, 0);
  std::vector<float> probs = {1, 0, 0.25f, 0.75f};
  const BlockMeasures& m = meter.Measure(Causal(Site::kProbs, 1, probs));
  EXPECT_EQ(SumNames(Site::kProbs)[kBaseSums + 1], "sink_mass");
  EXPECT_EQ(m.row_sums[m.sums + kBaseSums + 1], 0.25);
  EXPECT_EQ(m.row_sums[m.sums + kBaseSums + 2], 0.25);
  SiteBlock late = Causal(Site::kProbs, 1, probs);
  late.first_row = BlockMeter::kSinkTokens;
  EXPECT_EQ(meter.Measure(late).row_sums[kBaseSums + 2], 0.0);
}

// Keys that share a half evenly have the entropy of two, ln 2; a row whose sink has all has none.
TEST(BlockMeter, EntropyBesideALearnedSinkIsThatOfTheKeys) {
  const MarkedSpans none;
  const ValueStore no_values;
  const SiteSelection all;
  const WideScales no_scales(all, {});
  BlockMeter meter({}, none, no_values, no_scales, 0);
  std::vector<float> probs = {0, 0, 0.25f, 0.25f};
  const float shares[] = {1, 0.5f};
  SiteBlock block = Causal(Site::kProbs, 1, probs);
  block.sink_shares = shares;
  const BlockMeasures& m = meter.Measure(block);
  EXPECT_EQ(SumNames(Site::kProbs)[kBaseSums], "entropy");
  EXPECT_EQ(m.row_sums[kBaseSums], 0.0);
  EXPECT_NEAR(m.row_sums[m.sums + kBaseSums], std::log(2.0), 1e-6);
}

TEST(SkippedOutput, ByHand) {
  // Largest 1: the second entry is under 0.1, the third under 0.01 too.
  const std::vector<float> row = {1.0f, 0.05f, -0.005f}, v = {0, 1, 4, 0, 0, 2};
  const SkippedOutput s = MeasureSkipped(row, {.slices = {v.data(), nullptr}, .width = 2}).value();
  const double output = std::hypot(0.2, 1 - 0.01);
  EXPECT_EQ(s.entries[0], 0.0);
  EXPECT_NEAR(s.entries[1], 0.01 / output, 1e-6);
  EXPECT_NEAR(s.entries[2], std::hypot(0.2, 0.01) / output, 1e-6);
  EXPECT_EQ(s.blocks, (std::array<double, 3>{}));
}

TEST(SkippedOutput, AnOutputThatIsNotFiniteIsNotMeasured) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kLargest = std::numeric_limits<float>::max();
  const std::vector<float> row = {1.0f, 0.05f};
  for (const std::vector<float>& v :
       {std::vector{kInfinity, 0.0f}, {0.0f, kInfinity}, {0.0f, std::nanf("")}, {kLargest, kLargest}})
    EXPECT_FALSE(MeasureSkipped(row, {.slices = {v.data(), nullptr}, .width = 1}).has_value()) << v[0] << " " << v[1];
  const std::vector<float> large = {1e30f, -1e30f};  // whose squares f32 cannot hold
  EXPECT_TRUE(MeasureSkipped(row, {.slices = {large.data(), nullptr}, .width = 1}).has_value());
}

TEST(SkippedOutput, EqualsPlainDouble) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  constexpr int kKeys = 300, kWidth = 8;
  std::vector<float> row(kKeys), v1(kKeys * kWidth), v2(kKeys * kWidth);
  for (size_t k = 0; k < row.size(); ++k) row[k] = std::pow(normal(random), 3.0f) * (k / 64 == 2 ? 1e-3f : 1.0f);
  for (std::vector<float>* v : {&v1, &v2}) {
    for (float& x : *v) x = normal(random);
  }
  float largest = 0;
  for (const float a : row) largest = std::max(largest, std::fabs(a));
  const SkippedOutput s = MeasureSkipped(row, {.slices = {v1.data(), v2.data()}, .width = kWidth}).value();
  for (size_t share = 0; share < 3; ++share) {
    const auto threshold = static_cast<float>(kSparsityShares[share] * largest);
    double all = 0, entries = 0, blocks = 0;
    for (int i = 0; i < 2 * kWidth; ++i) {
      double output = 0, skipped = 0, in_blocks = 0;
      for (int k = 0; k < kKeys; ++k) {
        const double x = static_cast<double>(row[k]) * (i < kWidth ? v1 : v2)[k * kWidth + i % kWidth];
        float of_block = 0;
        for (int j = k / 64 * 64; j < std::min(kKeys, k / 64 * 64 + 64); ++j)
          of_block = std::max(of_block, std::fabs(row[j]));
        output += x;
        skipped += std::fabs(row[k]) < threshold ? x : 0;
        in_blocks += of_block < threshold ? x : 0;
      }
      all += output * output;
      entries += skipped * skipped;
      blocks += in_blocks * in_blocks;
    }
    // Rounding of sums over 300 keys in f32, against an output that does not cancel by more than 100.
    EXPECT_NEAR(s.entries[share], std::sqrt(entries / all), 300 * 0x1p-24 * 100);
    EXPECT_NEAR(s.blocks[share], std::sqrt(blocks / all), 300 * 0x1p-24 * 100);
  }
  EXPECT_GT(s.blocks[1], 0.0);
}

TEST(SkippedOutput, TheStoreHoldsTheCurrentLayer) {
  ValueStore store({StandardHeads(2, 1), StandardHeads(2, 1)});
  EXPECT_TRUE(store.Serves(Site::kProbs, 1));
  EXPECT_FALSE(store.Serves(Site::kDifference, 1));
  EXPECT_FALSE(store.Serves(Site::kProbs, 2));
  std::vector<float> v = {1, 2, 9, 3, 4, 9};
  store.Keep({.site = Site::kV,
              .layer = 0,
              .sequence = 5,
              .head = 0,
              .rows = 2,
              .first_columns = 2,
              .values = v.data(),
              .stride = 3});
  SiteBlock map{.site = Site::kProbs,
                .layer = 0,
                .sequence = 5,
                .head = 1,
                .map = 1,
                .rows = 2,
                .first_columns = 1,
                .column_step = 1};
  const std::optional<ValueSlices> slices = store.Find(map);
  ASSERT_TRUE(slices.has_value());
  EXPECT_EQ(slices->width, 2);
  EXPECT_EQ(slices->slices[0][2], 3.0f);
  map.rows = 3;  // a key that was not shown
  EXPECT_FALSE(store.Find(map).has_value());
  map.rows = 2;
  map.sequence = 6;
  EXPECT_FALSE(store.Find(map).has_value());
}

TEST(SkippedOutput, DifferentialHeadsMeasureTheDifference) {
  const ValueStore store({DiffLlamaHeads(4, 4)});
  EXPECT_TRUE(store.Serves(Site::kDifference, 0));
  EXPECT_FALSE(store.Serves(Site::kProbs, 0));
}

}  // namespace

}  // namespace tare::block_meter_test
