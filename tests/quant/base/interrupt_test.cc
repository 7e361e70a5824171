// SPDX-License-Identifier: Apache-2.0
// A stop cannot be withdrawn, so each is requested in a separate process.
#include "quant/base/interrupt.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdlib>

#include "quant/base/parallel.h"

namespace tare::interrupt_test {
namespace {

TEST(Interrupt, NothingIsThrownUnlessAStopWasRequested) { EXPECT_NO_THROW(ThrowIfStopped()); }

[[noreturn]] void StopBySignal() {
  std::signal(SIGINT, [](int) { RequestStop(); });
  std::raise(SIGINT);
  try {
    ThrowIfStopped();
  } catch (const Interrupted&) {
    std::_Exit(3);
  }
  std::_Exit(5);
}

TEST(InterruptDeathTest, ASignalHandlerMakesTheNextCheckThrow) {
  EXPECT_EXIT(StopBySignal(), testing::ExitedWithCode(3), "");
}

// A loop ends with what is at work.
[[noreturn]] void StopInALoop() {
  std::atomic<int> begun = 0;
  try {
    ParallelFor(1000, [&](size_t, int) {
      ++begun;
      RequestStop();
    });
  } catch (const Interrupted&) {
    std::_Exit(begun <= Threads() ? 3 : 4);
  }
  std::_Exit(5);
}

TEST(InterruptDeathTest, EndsALoopOnAllThreads) { EXPECT_EXIT(StopInALoop(), testing::ExitedWithCode(3), ""); }

}  // namespace
}  // namespace tare::interrupt_test
