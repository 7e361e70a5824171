// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/timing.h"

#include <gtest/gtest.h>

namespace tare::timing_test {
namespace {

TEST(Timing, MedianAndSpread) {
  EXPECT_EQ(TimingOf({2.0}).median, 2.0);
  EXPECT_EQ(TimingOf({2.0}).spread, 0.0);
  EXPECT_EQ(TimingOf({5.0, 1.0, 2.0}).median, 2.0);
  EXPECT_EQ(TimingOf({5.0, 1.0, 2.0}).spread, 2.0);
  EXPECT_EQ(TimingOf({4.0, 1.0, 3.0, 2.0}).median, 3.0);
}

TEST(Timing, ALargeSpreadIsSaid) {
  EXPECT_EQ(QuietText<Timing>({}), "");
  EXPECT_EQ(QuietText<Timing>({{1, 0.5}, {1, 0.1}}), "");
  EXPECT_EQ(QuietText<Timing>({{1, 0.2}, {1, 3.44}, {1, 0.1}}),
            "The largest spread is 344 %: other work ran meanwhile; try again on a quiet machine.\n");
}

TEST(Timing, RepeatsACallForTheGivenTime) {
  int calls = 0;
  const double start = Seconds(), mean = SecondsOfCall([&] { ++calls; }, 0.01), all = Seconds() - start;
  EXPECT_GT(calls, 1);
  EXPECT_GE(mean * calls, 0.01);
  EXPECT_LE(mean * calls, all);
}

TEST(Timing, TheClockNeverGoesBack) {
  double last = Seconds();
  for (int i = 0; i < 1000; ++i) {
    const double now = Seconds();
    EXPECT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace tare::timing_test
