// SPDX-License-Identifier: Apache-2.0
// The elementwise steps against double, on every target. Bounds: 2.4e-6 of 2^x and 10 roundings; sums of 64 terms.
#include "kernels/attention/float/float_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "quant/base/aligned.h"
#include "tests/support/each_target.h"

namespace tare::float_stage_test {
namespace {

constexpr double kEps = 0x1p-24, kExp2Error = 2.4e-6 + 10 * kEps;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(FloatStage, ScoresAreExponentialsOfWhatIsVisible) {
  constexpr int kRows = 20;
  AlignedBuffer<float> sums(kRows * 64), exps(kRows * 64), max(32), exp_sums(32);
  AlignedBuffer<int32_t> begin(32), end(32);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 40);
  for (int i = 0; i < kRows * 64; ++i) sums[i] = normal(random);
  for (int r = 0; r < kRows; ++r) {
    begin[r] = static_cast<int32_t>(random() % 65);
    end[r] = r % 3 == 0 ? begin[r] : begin[r] + static_cast<int32_t>(random() % static_cast<unsigned>(65 - begin[r]));
  }
  for (const bool masked : {false, true}) {
    OnEachTarget(kAllTargets, [&] {
      FloatScores({.rows = kRows,
                   .sums = sums.data(),
                   .factor = 0.3f,
                   .begin = masked ? begin.data() : nullptr,
                   .end = masked ? end.data() : nullptr,
                   .exps = exps.data(),
                   .max = max.data(),
                   .exp_sums = exp_sums.data()});
      for (int r = 0; r < kRows; ++r) {
        const auto sees = [&](int key) { return !masked || (key >= begin[r] && key < end[r]); };
        float largest = -kInfinity;
        for (int key = 0; key < 64; ++key) largest = sees(key) ? std::max(largest, sums[r * 64 + key]) : largest;
        ASSERT_EQ(max[r], largest * 0.3f);
        double total = 0;
        for (int key = 0; key < 64; ++key) {
          // The argument is rounded where it is large: |x| <= 60 octaves.
          const double want = sees(key) ? std::exp2(0.3f * double{sums[r * 64 + key]} - double{max[r]}) : 0.0;
          ASSERT_NEAR(exps[r * 64 + key], want, (kExp2Error + 60 * kEps) * want) << r << ' ' << key;
          total += want;
        }
        ASSERT_NEAR(exp_sums[r], total, (kExp2Error + (60 + 64) * kEps) * total) << r;
      }
    });
  }
}

TEST(FloatStage, WeightsAreSharesOfTheRowAndMayReplaceTheMaxima) {
  constexpr int kRows = 16, kTiles = 3;
  AlignedBuffer<float> max(kTiles * kRows), exp_sums(kTiles * kRows), lambda(kRows), weights(kTiles * kRows);
  for (int i = 0; i < kTiles * kRows; ++i) {
    const bool none = i % kRows == 5 || (i % kRows == 6 && i / kRows == 1);
    max[i] = none ? -kInfinity : static_cast<float>(i * 7 % 40);
    exp_sums[i] = none ? 0 : 1 + static_cast<float>(i % 9);
  }
  for (int r = 0; r < kRows; ++r) lambda[r] = 0.1f * static_cast<float>(r) - 0.5f;
  OnEachTarget(kAllTargets, [&] {
    for (const float* factor : {static_cast<const float*>(nullptr), static_cast<const float*>(lambda.data())}) {
      std::copy_n(max.data(), max.size(), weights.data());
      FloatWeights(kRows, kTiles, factor, weights.data(), exp_sums.data(), weights.data());
      for (int r = 0; r < kRows; ++r) {
        double largest = -kInfinity, sum = 0;
        for (int t = r; t < kTiles * kRows; t += kRows) largest = std::max(largest, double{max[t]});
        const auto below = [&](int t) { return max[t] == -kInfinity ? 0.0 : std::exp2(max[t] - largest); };
        for (int t = r; t < kTiles * kRows; t += kRows) sum += below(t) * exp_sums[t];
        for (int t = r; t < kTiles * kRows; t += kRows) {
          const double want = sum == 0 ? 0 : below(t) * (factor == nullptr ? 1.0 : double{factor[r]}) / sum;
          ASSERT_NEAR(weights[t], want, 2e-6 * std::abs(want)) << r << ' ' << t;
        }
      }
    }
  });
}

// Small integers and powers of two: exact.
TEST(FloatStage, DifferencesMayReplaceTheirFirstMap) {
  constexpr int kRows = 3;
  AlignedBuffer<float> exps2(kRows * 64), difference(kRows * 64);
  for (int i = 0; i < kRows * 64; ++i) exps2[i] = static_cast<float>(i % 13);
  const float w1[] = {1, 0.5f, 2}, w2[] = {2, 0, 0.25f};
  OnEachTarget(kAllTargets, [&] {
    for (const bool two : {false, true}) {
      for (int i = 0; i < kRows * 64; ++i) difference[i] = static_cast<float>(i % 29);
      FloatDifference({.rows = kRows,
                       .exps1 = difference.data(),
                       .exps2 = two ? exps2.data() : nullptr,
                       .weights1 = w1,
                       .weights2 = w2,
                       .difference = difference.data()});
      for (int i = 0; i < kRows * 64; ++i)
        ASSERT_EQ(difference[i], static_cast<float>(i % 29) * w1[i / 64] - (two ? exps2[i] * w2[i / 64] : 0));
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
        TransposeFourKeys(keys.data(), width + 2, count, width, out.data());
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
