// SPDX-License-Identifier: Apache-2.0
#include "quant/base/error.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace tare::error_test
