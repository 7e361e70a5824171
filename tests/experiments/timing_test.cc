// SPDX-License-Identifier: Apache-2.0
// The clock, summaries of repetitions, and what loops read: no limit is measured here (bench/roofline_test.cc).
#include "experiments/bench/roofline.h"

#include <gtest/gtest.h>

#include <numeric>

#include "quant/base/aligned.h"

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

TEST(ReadLoop, EveryLoopReadsEveryValueOnce) {
  AlignedBuffer<uint64_t> memory(3 * kReadStep);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = i * i + 1;
  const uint64_t sum = std::accumulate(memory.data(), memory.data() + memory.size(), uint64_t{0});
  for (const ReadLoop& loop : kReadLoops)
    EXPECT_EQ(SumRead(memory.data(), memory.size(), loop), sum) << loop.streams << " " << loop.ahead;
}

}  // namespace
}  // namespace tare::timing_test
