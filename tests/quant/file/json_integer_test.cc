// SPDX-License-Identifier: Apache-2.0
#include "quant/file/json_integer.h"
#include "tests/support/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare::json_integer_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Json = nlohmann::json;

TEST(JsonInteger, WhatFits) {
  EXPECT_EQ(IntegerOf<int32_t>(Json(7), "k"), 7);
  EXPECT_EQ(IntegerOf<int32_t>(Json(-2147483648LL), "k"), -2147483648LL);
  EXPECT_EQ(IntegerOf<uint64_t>(Json(18446744073709551615ULL), "k"), 18446744073709551615ULL);
}

TEST(JsonInteger, WhatDoesNotIsRefused) {
  for (const char* text :
       {"4294967297", "-2147483649", "18446744073709551615", "1.5", "1.0", "true", "\"1\"", "null"}) {
    EXPECT_THAT(
        Call([&] { IntegerOf<int32_t>(Json::parse(text), "k"); }),
        ThrowsMessage<Error>(HasSubstr(std::string("k: got ") + text + ", expected an integer from -2147483648")));
  }
  EXPECT_THROW(IntegerOf<uint32_t>(Json(-1), "k"), Error);
}

}  // namespace
}  // namespace tare::json_integer_test
