// SPDX-License-Identifier: Apache-2.0
// By hand, and against plain double.
#include "quant/observe/map_measures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace tare::map_measures_test {
namespace {

TEST(MapMeasures, EntropyOfAnEvenRowIsTheLogarithmOfItsLength) {
  EXPECT_NEAR(Entropy(std::vector<float>(100, 0.01f)), std::log(100.0), 1e-6);
  EXPECT_EQ(Entropy(std::vector<float>{0.0f, 1.0f, 0.0f}), 0.0);
  std::mt19937 random(1);
  std::exponential_distribution<float> law;
  std::vector<float> p(777);
  double sum = 0, expected = 0;
  for (float& v : p) sum += v = law(random);
  for (float& v : p) v = static_cast<float>(v / sum);
  for (const double v : p) expected -= v * std::log(v);
  EXPECT_NEAR(Entropy(p), expected, expected * 0x1p-22);
}

TEST(MapMeasures, NegativeMassIsOfTheNegativeEntries) {
  EXPECT_DOUBLE_EQ(NegativeMass(std::vector<float>{0.5f, -0.25f, 0.0f, -0.125f}), 0.375);
  EXPECT_EQ(NegativeMass({}), 0.0);
}

TEST(MapMeasures, SparsityByHand) {
  std::vector<float> row(130, 0.0f);  // blocks of 64, 64 and 2
  row[0] = 1.0f;
  row[1] = -0.05f;   // under 1e-1
  row[70] = 0.005f;  // under 1e-2: its block too
  row[129] = 0.2f;
  const Sparsity s = MeasureSparsity(row);
  EXPECT_EQ(s.blocks, 3);
  EXPECT_EQ(s.entries_under, (std::array<int64_t, 3>{126, 127, 128}));
  EXPECT_EQ(s.blocks_under, (std::array<int64_t, 3>{0, 1, 1}));
  EXPECT_EQ(s.entry_mass[0], 0.0);
  EXPECT_FLOAT_EQ(static_cast<float>(s.entry_mass[1]), 0.005f);
  EXPECT_FLOAT_EQ(static_cast<float>(s.entry_mass[2]), 0.055f);
  EXPECT_FLOAT_EQ(static_cast<float>(s.block_mass[2]), 0.005f);
}

TEST(MapMeasures, SparsityIsWhatPlainCountingGives) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (const size_t n : {1, 63, 64, 65, 500}) {
    std::vector<float> row(n);
    float largest = 0;
    for (float& v : row) v = std::pow(normal(random), 5.0f), largest = std::max(largest, std::fabs(v));
    const Sparsity s = MeasureSparsity(row);
    for (size_t i = 0; i < 3; ++i) {
      int64_t entries = 0;
      double mass = 0;
      for (const float v : row) {
        if (std::fabs(v) >= static_cast<float>(kSparsityShares[i] * largest)) continue;
        ++entries;
        mass += std::fabs(v);
      }
      EXPECT_EQ(s.entries_under[i], entries);
      EXPECT_NEAR(s.entry_mass[i], mass, mass * 64 * 0x1p-24);
    }
  }
}

TEST(MapMeasures, RowsOfZerosHaveNothingBelowAShare) {
  const Sparsity s = MeasureSparsity(std::vector<float>(64, 0.0f));
  EXPECT_EQ(s.entries_under, (std::array<int64_t, 3>{}));
}

}  // namespace
}  // namespace tare::map_measures_test
