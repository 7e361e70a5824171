// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/lanes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tare::lanes_test {
namespace {

TEST(Lanes, SumsFirstAndThirdBesideSecondAndFourth) {
  EXPECT_EQ(Sum(Doubles{1e300, 1, -1e300, 2}), 3);
  EXPECT_EQ(Sum(Doubles{1e300, -1e300, 1, 2}), 0);  // what stands beside 1e300 is lost
}

TEST(Lanes, MagnitudesKeepInfinitiesAndLoseOnlySigns) {
  const Floats v = Magnitudes(Floats{-0.0f, -2.5f, 3, -std::numeric_limits<float>::infinity()});
  EXPECT_FALSE(std::signbit(v[0]));
  EXPECT_EQ(v[1], 2.5f);
  EXPECT_EQ(v[2], 3);
  EXPECT_EQ(v[3], std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace tare::lanes_test
