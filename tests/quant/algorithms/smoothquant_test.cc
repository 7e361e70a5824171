// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/smoothquant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare::smoothquant_test {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

TEST(SmoothingFactors, ArePowersOfTheLargestMagnitudes) {
  const std::vector<float> input{16, 4, 1}, weight{4, 0.25f, 9};
  EXPECT_THAT(SmoothingFactors(input, weight, 0.5), ElementsAre(FloatEq(2), FloatEq(4), FloatEq(1.0f / 3)));
  EXPECT_THAT(SmoothingFactors(input, weight, 1), ElementsAre(16, 4, 1));
  EXPECT_THAT(SmoothingFactors(input, weight, 0), ElementsAre(0.25f, 4, FloatEq(1.0f / 9)));
}

// At alpha 0.5 both sides have the same largest magnitude afterwards (the paper's figure 5).
TEST(SmoothingFactors, HalfAndHalfMeetInTheMiddle) {
  const std::vector<float> input{100, 0.3f, 7}, weight{0.01f, 2, 0.5f};
  const std::vector<float> s = SmoothingFactors(input, weight, 0.5);
  for (size_t j = 0; j < s.size(); ++j) EXPECT_FLOAT_EQ(input[j] / s[j], weight[j] * s[j]);
}

TEST(SmoothingFactors, DeadChannelsStayAndExtremesAreBounded) {
  const std::vector<float> input{0, 3, 1e-30f, 3e38f}, weight{2, 0, 1e30f, 1e-38f};
  EXPECT_THAT(SmoothingFactors(input, weight, 0.5), ElementsAre(1, 1, FloatEq(1e-5f), FloatEq(1e5f)));
  EXPECT_TRUE(SmoothingFactors({}, {}, 0.5).empty());
}

}  // namespace
}  // namespace tare::smoothquant_test
