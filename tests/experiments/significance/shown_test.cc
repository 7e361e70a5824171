// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/shown.h"

#include <gtest/gtest.h>

namespace tare::shown_test {
namespace {

TEST(Shown, TwoDigitsOfTheError) {
  EXPECT_EQ(WithError(0.7104, 0.0456, ".4f"), "0.710 +/- 0.046");
  EXPECT_EQ(WithError(0.7104, 0.00456, ".4f"), "0.7104 +/- 0.0046");
  EXPECT_EQ(WithError(0.7104, 0.000456, ".4f"), "0.7104 +/- 0.0005");  // no more than the format has
  EXPECT_EQ(WithError(29.4784, 1.26, "9.4f"), "     29.5 +/-       1.3");
  EXPECT_EQ(WithError(293.4, 26, ".3f"), "293 +/- 26");
  EXPECT_EQ(WithError(-0.2, 0.153, "+.3f"), "-0.20 +/- 0.15");
  EXPECT_EQ(WithError(0.5, 0, ".3f"), "0.500 +/- 0.000");
}

TEST(Shown, PowersOfTen) {
  EXPECT_EQ(WithError(1.5713e-3, 2.86e-5, ".2e"), "1.57e-03 +/- 2.9e-05");
  EXPECT_EQ(WithError(1.5713e-3, 2.86e-4, "+.2e"), "+1.57e-03 +/- 2.9e-04");
  EXPECT_EQ(WithError(1.5713e-3, 2.86e-3, ".2e"), "1.6e-03 +/- 2.9e-03");
}

// Halves of 0.09 and 0.4: errors of 0.046 and 0.20.
TEST(Shown, Intervals) {
  EXPECT_EQ(WithInterval(0.71, {0.6145, 0.7945}, ".4f"), "0.710 [0.615, 0.794]");
  EXPECT_EQ(WithInterval(0, {-0.396, 0.396}, "+.3f"), "+0.00 [-0.40, +0.40]");
}

}  // namespace
}  // namespace tare::shown_test
