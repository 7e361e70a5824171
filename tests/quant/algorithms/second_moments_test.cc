// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/second_moments.h"

#include <gtest/gtest.h>

namespace tare {
namespace {

TEST(SecondMoments, MeanOfTheDiagonal) {
  EXPECT_EQ(MeanOfDiagonal({1, 9, 9, 9, 2, 9, 9, 9, 6}, 3), 3.0);
  EXPECT_EQ(MeanOfDiagonal({5}, 1), 5.0);
}

TEST(SecondMoments, InputsThatWereAlways0HaveAMeanOf1) { EXPECT_EQ(MeanOfDiagonal({0, 0, 0, 0}, 2), 1.0); }

}  // namespace
}  // namespace tare
