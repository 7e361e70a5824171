// SPDX-License-Identifier: Apache-2.0
#include "quant/base/forget_stop.h"

#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "quant/base/parallel.h"

namespace tare::forget_stop_test {
namespace {

TEST(ForgetStop, WorkGoesOnAfterAStop) {
  RequestStop();
  EXPECT_THROW(ParallelFor(1, [](size_t, int) {}), Interrupted);
  ForgetStop();
  int ran = 0;
  ParallelFor(1, [&](size_t, int) { ++ran; });
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace tare::forget_stop_test
