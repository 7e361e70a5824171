// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/distributions.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tare::distributions_test {
namespace {

// scipy 1.17.1: norm.cdf, norm.ppf.
TEST(Distributions, TheNormal) {
  EXPECT_NEAR(NormalBelow(-1.5), 0.06680720126885807, 1e-15);
  EXPECT_NEAR(NormalBelow(0.3), 0.6179114221889526, 1e-15);
  EXPECT_NEAR(NormalQuantile(0.8), 0.8416212335729143, 1e-14);
  EXPECT_EQ(NormalQuantile(0.5), 0);
}

// Quantiles as tables print them: 97.5 % of 1, 2, 7 and 8 degrees of freedom, 99.5 % of 31; and scipy's 2 t.sf(2.5, 9).
TEST(Distributions, StudentsTails) {
  EXPECT_NEAR(StudentTwoSided(12.7062, 1), 0.05, 1e-6);
  EXPECT_NEAR(StudentTwoSided(4.30265, 2), 0.05, 1e-6);
  EXPECT_NEAR(StudentTwoSided(-2.364624, 7), 0.05, 1e-6);
  EXPECT_NEAR(StudentTwoSided(2.306004, 8), 0.05, 1e-6);
  EXPECT_NEAR(StudentTwoSided(2.744042, 31), 0.01, 1e-6);
  EXPECT_NEAR(StudentTwoSided(2.5, 9), 0.033861827682985735, 1e-15);
  EXPECT_EQ(StudentTwoSided(0, 5), 1);
}

// exp(-x / 2) of 2 degrees; quantiles as tables print them: 95 % of 1, 4 and 9.
TEST(Distributions, StudentsQuantiles) {
  EXPECT_NEAR(StudentQuantile(0.975, 1), 12.7062, 1e-4);
  EXPECT_NEAR(StudentQuantile(0.975, 49), 2.00958, 1e-5);
  EXPECT_NEAR(StudentTwoSided(StudentQuantile(0.9, 7), 7), 0.2, 1e-12);
}

TEST(Distributions, ChiSquaredsTail) {
  EXPECT_NEAR(ChiSquaredAbove(3, 2), std::exp(-1.5), 1e-15);
  EXPECT_NEAR(ChiSquaredAbove(3.841459, 1), 0.05, 1e-7);
  EXPECT_NEAR(ChiSquaredAbove(9.487729, 4), 0.05, 1e-7);
  EXPECT_NEAR(ChiSquaredAbove(16.918978, 9), 0.05, 1e-7);
  EXPECT_EQ(ChiSquaredAbove(0, 3), 1);
}

// (1 + 15 + 105 + 455) / 2^15
TEST(Distributions, FairTosses) {
  EXPECT_NEAR(FairTossesAtMost(3, 15), 576.0 / 32768, 1e-16);
  EXPECT_NEAR(FairTossesAtMost(0, 5), 1.0 / 32, 1e-16);
  EXPECT_EQ(FairTossesAtMost(0, 0), 1);
}

}  // namespace
}  // namespace tare::distributions_test
