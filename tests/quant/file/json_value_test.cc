// SPDX-License-Identifier: Apache-2.0
#include "quant/file/json_value.h"

#include <gtest/gtest.h>

namespace tare::json_value_test {
namespace {

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

}  // namespace
}  // namespace tare::json_value_test
