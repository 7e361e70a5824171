// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/growth.h"
#include "tests/support/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare::growth_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Growth, SixteenTimesAndABeginning) {
  EXPECT_NO_THROW(pipeline::RequireGrowth(0, 65536, "step"));
  EXPECT_NO_THROW(pipeline::RequireGrowth(10, 65696, "step"));
  EXPECT_THAT(Call([] { pipeline::RequireGrowth(10, 65697, "step"); }),
              ThrowsMessage<Error>(HasSubstr("step: got 65697 bytes from a text of 10, expected at most 65696")));
}

}  // namespace
}  // namespace tare::growth_test
