// SPDX-License-Identifier: Apache-2.0
#include "quant/base/error.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "quant/base/parallel.h"

namespace tare::error_test {
namespace {

TEST(Error, FailFormatsItsMessage) {
  try {
    Fail("shape: got {} x {}, expected {}", 2, 3, "2 x 4");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "shape: got 2 x 3, expected 2 x 4");
    return;
  }
  ADD_FAILURE() << "nothing was thrown";
}

TEST(ErrorDeathTest, CheckAbortsAndNamesTheCondition) {
  const int three = 3;
  TARE_CHECK(three == 3);
  EXPECT_DEATH(TARE_CHECK(three == 4), "error_test.cc:[0-9]+: internal error: three == 4 does not hold");
}

// A stop cannot be withdrawn, so each is requested in a separate process.
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
}  // namespace tare::error_test
