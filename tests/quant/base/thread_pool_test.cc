// SPDX-License-Identifier: Apache-2.0
#include "quant/base/thread_pool.h"

#include <unistd.h>

#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <latch>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "quant/base/parallel.h"

namespace tare::thread_pool_test {
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

}  // namespace
}  // namespace tare::thread_pool_test
