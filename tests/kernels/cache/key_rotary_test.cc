// SPDX-License-Identifier: Apache-2.0
#include "kernels/cache/key_rotary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace tare::key_rotary_test {
namespace {

constexpr float kFrequency[] = {0.5f, 0.01f};

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

TEST(KeyRotary, PairsAreHalvesOrNeighbours) {
  for (const RotaryPairs pairs : {RotaryPairs::kHalves, RotaryPairs::kNeighbours}) {
    const KeyRotary rotary({kFrequency[0], kFrequency[1]}, pairs);
    std::vector<float> key{1, 0, 0, 0};
    rotary.Turn(key.data(), 3);
    const size_t partner = pairs == RotaryPairs::kHalves ? 2 : 1;
    EXPECT_NEAR(key[0], std::cos(1.5), 1e-7);
    EXPECT_NEAR(key[partner], std::sin(1.5), 1e-7);
    EXPECT_EQ(key[3 - partner], 0);
    EXPECT_EQ(key[3], 0);
  }
}

TEST(KeyRotary, ProductsKnowTheDistanceAlone) {
  const KeyRotary rotary({kFrequency[0], kFrequency[1]}, RotaryPairs::kHalves);
  const auto product = [&](int64_t q_at, int64_t k_at) {
    std::vector<float> q{1, 2, -1, 0.5f}, k{0.3f, -1, 2, 1};
    rotary.Turn(q.data(), q_at);
    rotary.Turn(k.data(), k_at);
    return Dot(q, k);
  };
  EXPECT_NEAR(product(10, 7), product(503, 500), 1e-4);  // the angle 251.5 has 1.5e-5 to its neighbour in f32
  EXPECT_GT(std::abs(product(10, 7) - product(10, 6)), 0.1);
}

TEST(KeyRotary, TurningBackUndoesIt) {
  const KeyRotary rotary({kFrequency[0], kFrequency[1]}, RotaryPairs::kNeighbours);
  const std::vector<float> key{0.3f, -1, 2, 1};
  std::vector<float> turned = key;
  rotary.Turn(turned.data(), 100'000);
  EXPECT_GT(std::abs(turned[0] - key[0]), 0.1);
  rotary.TurnBack(turned.data(), 100'000);
  for (size_t i = 0; i < key.size(); ++i) EXPECT_NEAR(turned[i], key[i], 1e-6);
}

}  // namespace
}  // namespace tare::key_rotary_test
