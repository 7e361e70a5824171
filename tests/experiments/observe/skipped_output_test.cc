// SPDX-License-Identifier: Apache-2.0
// By hand, and against plain double.
#include "experiments/observe/full_observer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace tare::skipped_output_test {
namespace {

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
}  // namespace tare::skipped_output_test
