// SPDX-License-Identifier: Apache-2.0
#include "quant/base/parallel.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <latch>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "quant/base/message.h"

namespace tare::parallel_test {
namespace {

bool HasStack() {
  stack_t now;
  return sigaltstack(nullptr, &now) == 0 && (now.ss_flags & SS_DISABLE) == 0;
}

std::atomic<uintptr_t> handled_at{0};

TEST(SignalStack, HandlersRunOnIt) {
  struct sigaction action = {}, before = {};
  // Not the address of a variable: a sanitizer may hold it elsewhere.
  action.sa_handler = [](int) { handled_at = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)); };
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, &before);
  std::thread([] {
    const bool had = HasStack();  // of a sanitizer
    {
      const SignalStack stack;
      stack_t now;
      ASSERT_EQ(sigaltstack(nullptr, &now), 0);
      ASSERT_TRUE(HasStack());
      std::raise(SIGUSR1);
      EXPECT_LT(handled_at - reinterpret_cast<uintptr_t>(now.ss_sp), now.ss_size);
      const SignalStack another;  // changes nothing
      stack_t still;
      sigaltstack(nullptr, &still);
      EXPECT_EQ(still.ss_sp, now.ss_sp);
    }
    EXPECT_EQ(HasStack(), had);
  }).join();
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(SignalStack, EveryThreadThatComputesHasOne) {
  SetThreads(3);
  std::atomic<int> without{0};
  for (int i = 0; i < 20; ++i) {
    ParallelFor(64, [&](size_t, int) { without += HasStack() ? 0 : 1; });
  }
  SetThreads(0);
  EXPECT_EQ(without, 0);
}

TEST(ThreadPool, EachThreadIsCalledAtMostOnceAndTheCallerAlways) {
  for (const int threads : {1, 2, 5}) {
    for (int call = 0; call < 20000; ++call) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(threads));
      ThreadPool::Get().Run(threads, [&](int thread) { ++seen.at(static_cast<size_t>(thread)); });
      ASSERT_EQ(seen[0], 1);
      for (const std::atomic<int>& times : seen) ASSERT_LE(times, 1);
    }
  }
}

// The caller waits in work(0) until all others are in theirs.
TEST(ThreadPool, ThreadsThatSleepWakeUp) {
  for (const int spin : {0, 50, 100'000}) {
    ThreadPool::SpinFor(std::chrono::microseconds(spin));
    for (int call = 0; call < 3; ++call) {
      std::latch all(4);
      ThreadPool::Get().Run(4, [&](int) { all.arrive_and_wait(); });
      usleep(2000);
    }
  }
  ThreadPool::SpinFor(std::chrono::microseconds(50));
}

TEST(ThreadPool, WaitsForThoseThatBegan) {
  for (int call = 0; call < 20; ++call) {
    std::latch both(2);
    std::atomic<bool> ended = false;
    ThreadPool::Get().Run(2, [&](int thread) {
      both.arrive_and_wait();
      if (thread == 0) return;
      usleep(1000);
      ended = true;
    });
    EXPECT_TRUE(ended);
  }
}

TEST(ThreadPool, ACallInsideACallRunsOnItsThread) {
  std::atomic<int> inner = 0;
  std::latch both(2);
  ThreadPool::Get().Run(2, [&](int) {
    both.arrive_and_wait();
    const std::thread::id mine = std::this_thread::get_id();
    ThreadPool::Get().Run(2, [&](int thread) {
      EXPECT_EQ(thread, 0);
      EXPECT_EQ(std::this_thread::get_id(), mine);
      ++inner;
    });
  });
  EXPECT_EQ(inner, 2);
}

TEST(ThreadPool, TwoCallersDoNotWaitForEachOther) {
  std::latch both(2);
  const auto call = [&] {
    ThreadPool::Get().Run(2, [&](int thread) {
      if (thread == 0) both.arrive_and_wait();
    });
  };
  std::thread other(call);
  call();
  other.join();
}

// Its parent's threads are not there, whether they slept or were at work.
TEST(ThreadPool, AChildOfForkHasItsOwn) {
  std::latch begun(2), forked(1);
  std::thread busy([&] {
    ThreadPool::Get().Run(2, [&](int) {
      begun.arrive_and_wait();
      forked.wait();
    });
  });
  begun.wait();
  const pid_t child = fork();
  if (child == 0) {
    std::latch all(3);
    ThreadPool::Get().Run(3, [&](int) { all.arrive_and_wait(); });
    _exit(7);
  }
  forked.count_down();
  busy.join();
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

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

// The first body of each thread waits for the others', so that all come.
TEST_P(Parallel, EachThreadBeginsWithARunOfItsOwn) {
  constexpr size_t kRun = 10;
  std::latch all(GetParam());
  std::vector<std::vector<size_t>> taken(static_cast<size_t>(GetParam()));
  ParallelFor(taken.size() * kRun, [&](size_t index, int thread) {
    std::vector<size_t>& mine = taken[static_cast<size_t>(thread)];
    mine.push_back(index);
    if (mine.size() == 1) all.arrive_and_wait();
  });
  for (size_t thread = 0; thread < taken.size(); ++thread) EXPECT_EQ(taken[thread].front(), thread * kRun);
}

// Inside a call no other thread comes.
TEST_P(Parallel, WhoIsAloneTakesTheRunsOfOthersInOrder) {
  ParallelFor(2, [&](size_t, int) {
    std::vector<size_t> taken;
    ParallelFor(100, [&](size_t index, int thread) {
      EXPECT_EQ(thread, 0);
      taken.push_back(index);
    });
    ASSERT_EQ(taken.size(), 100u);
    EXPECT_TRUE(std::ranges::is_sorted(taken));
  });
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
