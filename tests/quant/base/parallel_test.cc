// SPDX-License-Identifier: Apache-2.0
#include "quant/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "quant/base/message.h"

namespace tare::parallel_test {
namespace {

class Parallel : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { SetThreads(GetParam()); }
  void TearDown() override { SetThreads(0); }
};

TEST_P(Parallel, CoversEveryIndexOnce) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{7}, size_t{1000}, size_t{10007}}) {
    std::vector<std::atomic<int>> seen(count);
    std::atomic<int> outside{0};
    ParallelFor(count, [&](size_t index, int thread) {
      ++seen[index];
      if (thread < 0 || thread >= Threads()) ++outside;
    });
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(seen[i], 1) << i << " of " << count;
    EXPECT_EQ(outside, 0);
  }
}

TEST_P(Parallel, NoTwoBodiesShareAThreadNumberAtATime) {
  std::vector<std::atomic<int>> inside(static_cast<size_t>(Threads()));
  std::atomic<int> clashes{0};
  ParallelFor(2000, [&](size_t, int thread) {
    std::atomic<int>& mine = inside[static_cast<size_t>(thread)];
    if (++mine != 1) ++clashes;
    --mine;
  });
  EXPECT_EQ(clashes, 0);
}

// Every body waits for all the others, so this only ends if all of them run at once.
TEST_P(Parallel, UsesAsManyThreadsAsAreSet) {
  std::latch all(GetParam());
  std::vector<int> threads(static_cast<size_t>(GetParam()));
  ParallelFor(threads.size(), [&](size_t index, int thread) {
    threads[index] = thread;
    all.arrive_and_wait();
  });
  EXPECT_EQ(std::set<int>(threads.begin(), threads.end()).size(), threads.size());
}

TEST_P(Parallel, ThrowsTheBodysExceptionAndStopsTheHandOut) {
  std::atomic<size_t> run{0};
  const auto body = [&](size_t index, int) {
    ++run;
    if (index == 10) throw std::out_of_range("index 10");
    // So slow that the others cannot be through before the thread with index 10 gets a processor.
    if (index > 10) std::this_thread::sleep_for(std::chrono::microseconds(100));
  };
  EXPECT_THROW(
      {
        try {
          ParallelFor(1'000'000, body);
        } catch (const std::out_of_range& error) {
          EXPECT_STREQ(error.what(), "index 10");
          throw;
        }
      },
      std::out_of_range);
  EXPECT_GE(run, 11u);
  EXPECT_LT(run, 1'000'000u);
}

TEST_P(Parallel, OneOfManyExceptionsComesThrough) {
  EXPECT_THROW(ParallelFor(1000, [](size_t index, int) { Fail("index {}", index); }), Error);
  std::atomic<int> after{0};
  ParallelFor(10, [&](size_t, int) { ++after; });
  EXPECT_EQ(after, 10);
}

INSTANTIATE_TEST_SUITE_P(Threads, Parallel, testing::Values(1, 2, 3, 8));

TEST(Threads, RefusesANegativeNumber) { EXPECT_THROW(SetThreads(-1), Error); }

TEST(Threads, ZeroMeansAllAndIsAtLeastOne) {
  SetThreads(5);
  EXPECT_EQ(Threads(), 5);
  SetThreads(0);
  EXPECT_GE(Threads(), 1);
}

TEST(ThreadsOfCalls, AreThoseOfTheirThreadWhileTheyLive) {
  SetThreads(3);
  {
    const ThreadsOfCalls of_this(2);
    EXPECT_EQ(Threads(), 2);
    {
      const ThreadsOfCalls inner(7);
      EXPECT_EQ(Threads(), 7);
    }
    EXPECT_EQ(Threads(), 2);
    std::thread([] { EXPECT_EQ(Threads(), 3); }).join();
    std::atomic<int> largest = 0;
    ParallelFor(1000, [&](size_t, int thread) {
      for (int now = largest; thread > now && !largest.compare_exchange_weak(now, thread);) {
      }
    });
    EXPECT_LT(largest, 2);
  }
  EXPECT_EQ(Threads(), 3);
  SetThreads(0);
  EXPECT_THROW(ThreadsOfCalls(0), Error);
}

// Under the thread sanitizer a plain count is a race.
TEST(Threads, TheFirstCallMayBeOfSeveralThreads) {
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([i] { i == 0 ? SetThreads(2) : ParallelFor(10, [](size_t, int) {}); });
  for (std::thread& caller : callers) caller.join();
  SetThreads(0);
}

}  // namespace
}  // namespace tare::parallel_test
