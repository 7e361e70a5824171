// SPDX-License-Identifier: Apache-2.0
#include "quant/file/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/call.h"

namespace tare::json_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// What json.cc compiles is whole: values are made, changed, compared and written by it, in the order of each kind of
// object.
TEST(Json, MembersAreCompiledOnce) {
  nlohmann::json sorted = {{"b", 1.5}, {"a", {1, true, nullptr}}};
  nlohmann::ordered_json ordered = {{"b", 1.5}, {"a", {1, true, nullptr}}};
  EXPECT_EQ(sorted.dump(), R"({"a":[1,true,null],"b":1.5})");
  EXPECT_EQ(ordered.dump(), R"({"b":1.5,"a":[1,true,null]})");
  ordered["a"].push_back("text");
  ordered.erase("b");
  EXPECT_EQ(ordered, (nlohmann::ordered_json{{"a", {1, true, nullptr, "text"}}}));
}

TEST(JsonValue, IsNullForWhatIsNoNumber) {
  EXPECT_EQ(NumberOrNull(1.5).dump(), "1.5");
  for (const double none : {NAN, INFINITY, -INFINITY}) EXPECT_TRUE(NumberOrNull(none).is_null());
}

TEST(JsonValue, KeepsTheOrderOfItsMembers) { EXPECT_EQ((Json{{"b", 1}, {"a", 2}}).dump(), R"({"b":1,"a":2})"); }

TEST(JsonText, InvalidUtf8IsReplaced) {
  const Json json = {{"b", "x\xff"}, {"a", {1}}};
  EXPECT_EQ(JsonText(json), "{\"b\":\"x\xef\xbf\xbd\",\"a\":[1]}");
  EXPECT_EQ(JsonText({{"a", 1}}, 2), "{\n  \"a\": 1\n}");
}

TEST(PlainText, IsAStringWithoutItsQuotes) {
  EXPECT_EQ(PlainText("a b"), "a b");
  EXPECT_EQ(PlainText(1.5), "1.5");
  EXPECT_EQ(PlainText({1, nullptr}), "[1,null]");
}

TEST(JsonInteger, WhatFits) {
  EXPECT_EQ(IntegerOf<int32_t>(nlohmann::json(7), "k"), 7);
  EXPECT_EQ(IntegerOf<int32_t>(nlohmann::json(-2147483648LL), "k"), -2147483648LL);
  EXPECT_EQ(IntegerOf<uint64_t>(nlohmann::json(18446744073709551615ULL), "k"), 18446744073709551615ULL);
}

TEST(JsonInteger, WhatDoesNotIsRefused) {
  for (const char* text :
       {"4294967297", "-2147483649", "18446744073709551615", "1.5", "1.0", "true", "\"1\"", "null"}) {
    EXPECT_THAT(
        Call([&] { IntegerOf<int32_t>(nlohmann::json::parse(text), "k"); }),
        ThrowsMessage<Error>(HasSubstr(std::string("k: got ") + text + ", expected an integer from -2147483648")));
  }
  EXPECT_THROW(IntegerOf<uint32_t>(nlohmann::json(-1), "k"), Error);
}

}  // namespace
}  // namespace tare::json_test
