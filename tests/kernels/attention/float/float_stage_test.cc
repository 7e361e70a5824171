// SPDX-License-Identifier: Apache-2.0
// The elementwise steps against double, on every target. Bounds: 2.1e-7 of 2^x and 10 roundings; sums of 64 terms.
#include "kernels/attention/float/float_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/attention/exponentials.h"
#include "quant/base/aligned.h"
#include "tests/support/each_target.h"
#include "tests/support/normal_floats.h"

namespace tare::float_stage_test {
namespace {

constexpr double kEps = 0x1p-24, kExp2Error = 2.1e-7 + 10 * kEps;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Rows of 64 within rows of `stride`, of which the rest stays.
TEST(FloatStage, ScoresAreExponentialsOfWhatIsVisible) {
  constexpr int kRows = 20;
  std::mt19937 random(1);
  NormalFloats normal(0, 8);
  for (const int stride : {64, 80}) {
    AlignedBuffer<float> logits(kRows * stride), values(kRows * stride), max(32), exp_sums(32);
    AlignedBuffer<int32_t> begin(32), end(32);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = normal(random);
    for (int r = 0; r < kRows; ++r) {
      begin[r] = static_cast<int32_t>(random() % 65);
      end[r] = r % 3 == 0 ? begin[r] : begin[r] + static_cast<int32_t>(random() % static_cast<unsigned>(65 - begin[r]));
    }
    for (const bool masked : {false, true}) {
      OnEachTarget(kAllTargets, [&] {
        std::copy_n(logits.data(), logits.size(), values.data());
        FloatScores({.rows = kRows,
                     .values = values.data(),
                     .stride = stride,
                     .begin = masked ? begin.data() : nullptr,
                     .end = masked ? end.data() : nullptr,
                     .max = max.data(),
                     .exp_sums = exp_sums.data()});
        for (int r = 0; r < kRows; ++r) {
          const float *of = logits.data() + r * stride, *got = values.data() + r * stride;
          const auto sees = [&](int key) { return !masked || (key >= begin[r] && key < end[r]); };
          float largest = -kInfinity;
          for (int key = 0; key < 64; ++key) largest = sees(key) ? std::max(largest, of[key]) : largest;
          ASSERT_EQ(max[r], largest * kLog2E);
          double total = 0;
          for (int key = 0; key < 64; ++key) {
            // The argument is rounded where it is large: |x| <= 100 octaves.
            const double want = sees(key) ? std::exp2(double{kLog2E} * of[key] - double{max[r]}) : 0.0;
            ASSERT_NEAR(got[key], want, (kExp2Error + 100 * kEps) * want) << r << ' ' << key;
            total += want;
          }
          ASSERT_NEAR(exp_sums[r], total, (kExp2Error + (100 + 64) * kEps) * total) << r;
          for (int key = 64; key < stride; ++key) ASSERT_EQ(got[key], of[key]);
        }
      });
    }
  }
}

// Else a model whose logits overflow would go on with numbers.
TEST(FloatStage, NanAndInfinityMakeTheirRowNan) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
    OnEachTarget(kAllTargets, [&] {
      AlignedBuffer<float> values(16 * 64), max(16), exp_sums(16);
      std::fill_n(values.data(), values.size(), 1.0f);
      values[3 * 64 + 10] = bad;
      FloatScores({.rows = 16, .values = values.data(), .max = max.data(), .exp_sums = exp_sums.data()});
      FloatWeights(16, 1, max.data(), exp_sums.data(), max.data());
      FloatDifference({.rows = 16, .exps1 = values.data(), .weights1 = max.data(), .difference = values.data()});
      for (int row = 0; row < 16; ++row) EXPECT_EQ(std::isnan(values[row * 64 + 10]), row == 3) << row;
    });
  }
}

TEST(FloatStage, WeightsAreSharesOfTheRowAndMayReplaceTheMaxima) {
  constexpr int kRows = 16, kTiles = 3;
  AlignedBuffer<float> max(kTiles * kRows), exp_sums(kTiles * kRows), weights(kTiles * kRows);
  for (int i = 0; i < kTiles * kRows; ++i) {
    const bool none = i % kRows == 5 || (i % kRows == 6 && i / kRows == 1);
    max[i] = none ? -kInfinity : static_cast<float>(i * 7 % 40);
    exp_sums[i] = none ? 0 : 1 + static_cast<float>(i % 9);
  }
  OnEachTarget(kAllTargets, [&] {
    std::copy_n(max.data(), max.size(), weights.data());
    FloatWeights(kRows, kTiles, weights.data(), exp_sums.data(), weights.data());
    for (int r = 0; r < kRows; ++r) {
      double largest = -kInfinity, sum = 0;
      for (int t = r; t < kTiles * kRows; t += kRows) largest = std::max(largest, double{max[t]});
      const auto below = [&](int t) { return max[t] == -kInfinity ? 0.0 : std::exp2(max[t] - largest); };
      for (int t = r; t < kTiles * kRows; t += kRows) sum += below(t) * exp_sums[t];
      for (int t = r; t < kTiles * kRows; t += kRows) {
        const double want = sum == 0 ? 0 : below(t) / sum;
        ASSERT_NEAR(weights[t], want, 2e-6 * std::abs(want)) << r << ' ' << t;
      }
    }
  });
}

// Small integers and powers of two: exact.
TEST(FloatStage, DifferencesMayReplaceTheirFirstMap) {
  constexpr int kRows = 3;
  AlignedBuffer<float> exps2(kRows * 64), difference(kRows * 64);
  for (int i = 0; i < kRows * 64; ++i) exps2[i] = static_cast<float>(i % 13);
  const float w1[] = {1, 0.5f, 2}, w2[] = {2, 0, 0.25f}, lambda[] = {0.5f, 1, 2};
  OnEachTarget(kAllTargets, [&] {
    for (const bool two : {false, true}) {
      for (int i = 0; i < kRows * 64; ++i) difference[i] = static_cast<float>(i % 29);
      FloatDifference({.rows = kRows,
                       .exps1 = difference.data(),
                       .exps2 = two ? exps2.data() : nullptr,
                       .weights1 = w1,
                       .weights2 = w2,
                       .lambda = lambda,
                       .difference = difference.data()});
      for (int i = 0; i < kRows * 64; ++i)
        ASSERT_EQ(difference[i],
                  static_cast<float>(i % 29) * w1[i / 64] - (two ? lambda[i / 64] * exps2[i] * w2[i / 64] : 0));
    }
  });
}

TEST(FloatStage, FourKeysBecomeColumns) {
  for (const int width : {1, 3, 4, 5, 64, 130}) {
    for (int count = 0; count <= 4; ++count) {
      std::vector<float> keys(static_cast<size_t>(4 * (width + 2)));
      for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<float>(i + 1);
      OnEachTarget(kAllTargets, [&] {
        std::vector<float> out(static_cast<size_t>(width) * 64, -1.0f);
        const float* four[4] = {};
        for (int key = 0; key < count; ++key) four[key] = keys.data() + key * (width + 2);
        TransposeFourKeys(four, width, out.data());
        for (int i = 0; i < width * 64; ++i) {
          const int key = i % 64;
          const float want = key >= 4 ? -1.0f : key < count ? keys[key * (width + 2) + i / 64] : 0.0f;
          ASSERT_EQ(out[i], want) << width << ' ' << count << ' ' << i;
        }
      });
    }
  }
}

}  // namespace
}  // namespace tare::float_stage_test
