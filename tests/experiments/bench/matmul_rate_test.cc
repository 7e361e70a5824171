// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/matmul_rate.h"

#include <gtest/gtest.h>

namespace tare {
namespace {

TEST(MatmulRateTest, FlopIsTwoAProduct) {
  EXPECT_EQ(MatmulRate(Math::kF32, 64, 96, 32).Flop(), 2.0 * 64 * 96 * 32);
  EXPECT_EQ(MatmulRate(Math::kBf16, 64, 96, 33).Flop(), 2.0 * 64 * 96 * 33);
}

// Times decide nothing here: only that there is one.
TEST(MatmulRateTest, TimesAnExecution) {
  for (const Math math : {Math::kF32, Math::kBf16}) EXPECT_GT(MatmulRate(math, 128, 128, 128).SecondsOnce(), 0);
}

TEST(MatmulRateTest, ABaselineIsNotOneDnnsReferencePath) {
  EXPECT_FALSE(MatmulRate(Math::kF32, 512, 2048, 2048).Implementation().starts_with("ref"));
}

}  // namespace
}  // namespace tare
