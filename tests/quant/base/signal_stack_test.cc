// SPDX-License-Identifier: Apache-2.0
#include "quant/base/signal_stack.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <thread>

#include "quant/base/parallel.h"

namespace tare::signal_stack_test {
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

}  // namespace
}  // namespace tare::signal_stack_test
