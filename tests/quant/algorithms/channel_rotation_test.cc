// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/channel_rotation.h"

#include <gtest/gtest.h>

#include "tests/support/random_quantized.h"

namespace tare {
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

}  // namespace
}  // namespace tare
