// SPDX-License-Identifier: Apache-2.0
#include "quant/base/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/support/call.h"

namespace tare::arguments_test {
namespace {

using testing::StrEq;
using testing::ThrowsMessage;

TEST(Arguments, WhatIsAskedPasses) {
  const float x = 0;
  CheckPointer("here", &x, 1);
  CheckPointer("here", nullptr, 0);
  CheckRange("here", "head", 0, 0, 3);
  CheckRange("here", "head", 3, 0, 3);
  CheckRange("here", "rows", int64_t{1} << 62, 1);
  CheckEqual("here", "inputs", 4, 4);
  CheckSquare("here", 9, 3);
}

TEST(Arguments, WhatIsNotIsNamed) {
  const auto message = [](const Call& call, const char* text) { EXPECT_THAT(call, ThrowsMessage<Error>(StrEq(text))); };
  message([] { CheckPointer("here", nullptr, 3); }, "here: got a null pointer for 3 values");
  message([] { CheckPointer("here", nullptr, -3); }, "here: got -3 values, expected 0 or more");
  message([] { CheckRange("here", "head", 4, 0, 3); }, "here: got head 4, expected 0 to 3");
  message([] { CheckRange("here", "head", -1, 0, 3); }, "here: got head -1, expected 0 to 3");
  message([] { CheckRange("here", "rows", 0, 1); }, "here: got rows 0, expected at least 1");
  message([] { CheckEqual("here", "inputs", 5, 4); }, "here: got inputs 5, expected 4");
  message([] { CheckSquare("here", 8, 3); }, "here: got moments 8, expected 9");
  message([] { CheckSquare("here", 0, 0); }, "here: got inputs 0, expected 1 to 2147483648");
  message([] { CheckSquare("here", 0, int64_t{1} << 32); }, "here: got inputs 4294967296, expected 1 to 2147483648");
}

}  // namespace
}  // namespace tare::arguments_test
