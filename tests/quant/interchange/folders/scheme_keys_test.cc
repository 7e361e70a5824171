// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/folders/scheme_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"

namespace tare::scheme_keys_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(SchemeKeys, GivesWhatIsThere) {
  const Json json = Json::parse(R"({"i": 3, "f": true, "t": "x", "l": ["a", ["b", ["c"]]], "n": null})");
  SchemeKeys keys(json, "w");
  EXPECT_EQ(keys.Integer("i", 0, 3), 3);
  EXPECT_EQ(keys.Integer("n", 0, 3, 2), 2);
  EXPECT_TRUE(keys.Flag("f", false));
  EXPECT_TRUE(keys.Flag("missing", true));
  EXPECT_EQ(keys.Text("t"), "x");
  EXPECT_EQ(keys.Text("n", "other"), "other");
  EXPECT_THAT(keys.Texts("l"), ElementsAre("a", "b", "c"));
  EXPECT_FALSE(keys.Has("n"));
  EXPECT_NO_THROW(keys.Only("t", {"1", "\"x\""}));
  EXPECT_NO_THROW(keys.Only("n", {}));
  EXPECT_NO_THROW(keys.RefuseOthers());
}

TEST(SchemeKeys, RefusesWrongValuesByName) {
  const Json json = Json::parse(R"({"i": 1.5, "big": 18446744073709551615, "t": 7, "l": ["a", 1], "other": {"a": 1}})");
  SchemeKeys keys(json, "w");
  const auto refused = [](auto call, const char* why) { EXPECT_THAT(call, ThrowsMessage<Error>(HasSubstr(why))); };
  refused([&] { keys.Integer("i", 0, 9); }, "w: i: got 1.5, expected an integer from 0 to 9");
  refused([&] { keys.Integer("big", 0, 9); }, "w: big: got 18446744073709551615");
  refused([&] { keys.Integer("missing", 0, 9); }, "w: missing: missing");
  refused([&] { keys.Flag("t", true); }, "w: t: got 7, expected true or false");
  refused([&] { keys.Text("t"); }, "w: t: got 7, expected a string");
  refused([&] { keys.Texts("l"); }, "w: l: got [\"a\",1], expected a list of strings");
  refused([&] { keys.Only("t", {"8", "9"}); }, "w: t: got 7, expected 8 or 9: others are not supported");
  refused([&] { keys.Only("t", {}); }, "w: t: got 7, expected none: it is not supported");
  refused([&] { keys.RefuseOthers(); }, "w: other: got {\"a\":1}, expected no such key");
  refused([] { SchemeKeys(Json(std::string(100, 'x')), "w"); }, "xxx..., expected an object");
  keys.Ignore({"other"});
  EXPECT_NO_THROW(keys.RefuseOthers());
}

}  // namespace
}  // namespace tare::scheme_keys_test
