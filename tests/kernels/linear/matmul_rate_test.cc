// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/matmul_rate.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tare {
namespace {

TEST(MatmulRateTest, FlopIsTwoAProduct) {
  EXPECT_EQ(MatmulRate(Math::kF32, 64, 96, 32).Flop(), 2.0 * 64 * 96 * 32);
  EXPECT_EQ(MatmulRate(Math::kBf16, 64, 96, 33).Flop(), 2.0 * 64 * 96 * 33);
}

// 64 times the work, best of several, on a machine that does other things too: not nearly as fast as the small one, and
// faster than any scalar loop.
TEST(MatmulRateTest, TimeIsThatOfTheProduct) {
  for (const Math math : {Math::kF32, Math::kBf16}) {
    MatmulRate small(math, 128, 128, 128), large(math, 512, 512, 512);
    const auto best = [](MatmulRate& rate) {
      double seconds = rate.SecondsOnce();
      for (int i = 0; i < 10; ++i) seconds = std::min(seconds, rate.SecondsOnce());
      return seconds;
    };
    EXPECT_GT(best(small), 0);
    EXPECT_GT(best(large), best(small));
    EXPECT_GT(large.Flop() / best(large), 1e8);
  }
}

}  // namespace
}  // namespace tare
