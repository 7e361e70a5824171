// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/channel_rotation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "tests/support/random_quantized.h"

namespace tare::channel_rotation_test {
namespace {

constexpr int64_t kN = 12;

TEST(ChannelRotation, WithoutALearnedOneItIsTheFirst) {
  const std::vector<float> x = RandomNormal(kN, 1);
  std::vector<float> y(kN), first(kN);
  ChannelRotation(Hadamard(kN, 3)).Rotate(x.data(), y.data());
  Hadamard(kN, 3).Rotate(x.data(), first.data());
  EXPECT_EQ(y, first);
}

TEST(ChannelRotation, TheLearnedOneComesSecond) {
  std::vector<double> q;
  for (const float value : RandomNormal(kN * kN, 2)) q.push_back(value);
  const ChannelRotation rotation(Hadamard(kN, 3), q);
  EXPECT_EQ(rotation.size(), kN);
  const std::vector<float> x = RandomNormal(kN, 1);
  std::vector<float> y = x, first(kN);
  rotation.Rotate(y.data(), y.data());  // in place
  Hadamard(kN, 3).Rotate(x.data(), first.data());
  for (size_t j = 0; j < kN; ++j) {
    double sum = 0;
    for (size_t i = 0; i < kN; ++i) sum += double{first[i]} * q[i * kN + j];
    EXPECT_EQ(y[j], static_cast<float>(sum));
  }
}

// The vector of ones stays, so the mean does, and lengths do; an outlier is spread over all channels.
TEST(ChannelRotation, OneThatKeepsTheMean) {
  for (const int64_t n : {1, 2, 12, 64}) {
    const ChannelRotation rotation = ChannelRotation::KeepingTheMean(Hadamard(n, 3));
    const auto turned = [&](std::vector<float> x) {
      rotation.Rotate(x.data(), x.data());
      return x;
    };
    const auto sum_and_squares = [](const std::vector<float>& x) {
      double sum = 0, squares = 0;
      for (const float value : x) sum += value, squares += double{value} * value;
      return std::pair(sum, squares);
    };
    for (const float one : turned(std::vector<float>(static_cast<size_t>(n), 1.0f))) EXPECT_NEAR(one, 1, 1e-6);
    const std::vector<float> x = RandomNormal(n, 1), y = turned(x);
    const auto [sum, squares] = sum_and_squares(x);
    const auto [new_sum, new_squares] = sum_and_squares(y);
    // Each channel is rounded to f32 twice.
    EXPECT_NEAR(new_sum, sum, 2e-7 * static_cast<double>(n) * std::sqrt(squares)) << n;
    EXPECT_NEAR(new_squares, squares, 1e-6 * squares) << n;
    EXPECT_EQ(y == x, n == 1);
  }
  std::vector<float> outlier(64);
  outlier[5] = 1;
  const ChannelRotation rotation = ChannelRotation::KeepingTheMean(Hadamard(64, 3));
  rotation.Rotate(outlier.data(), outlier.data());
  for (const float x : outlier) EXPECT_LT(std::fabs(x), 0.3);  // 1/8 from the Hadamard matrix
}

}  // namespace
}  // namespace tare::channel_rotation_test
