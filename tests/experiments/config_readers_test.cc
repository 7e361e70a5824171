// SPDX-License-Identifier: Apache-2.0
// Values of config.json as ConfigKeys reads them, and what it says of others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experiments/model/config/config.h"
#include "quant/base/message.h"
#include "tests/support/call.h"

namespace tare::config_readers_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ConfigKeys, ReadsValuesAndUsesDefaultsForNull) {
  const nlohmann::json json = {{"n", 3}, {"x", 0.5}, {"f", true}, {"t", "text"}, {"none", nullptr}, {"o", {{"n", 4}}}};
  const ConfigKeys keys(json, "here");
  EXPECT_EQ(keys.Integer("n", 1), 3);
  EXPECT_EQ(keys.Integer("none", 1, 7), 7);
  EXPECT_EQ(keys.Positive("x"), 0.5);
  EXPECT_EQ(keys.Positive("absent", 2.0), 2.0);
  EXPECT_TRUE(keys.Flag("f", false));
  EXPECT_EQ(keys.Text("t"), "text");
  EXPECT_EQ(keys.Object("o").Integer("n", 1), 4);
  EXPECT_EQ(keys.Object("o").where(), "here: o");
}

TEST(ConfigKeys, MessagesNamePlaceAndValue) {
  const nlohmann::json json = {{"n", 0}, {"x", -1.0}, {"f", 1}, {"window", 4096}, {"off", false}, {"one", 1.0}};
  const ConfigKeys keys(json, "here");
  EXPECT_THAT(Call([&] { keys.Integer("absent", 1); }),
              ThrowsMessage<Error>(HasSubstr("here: key 'absent' is missing")));
  EXPECT_THAT(Call([&] { keys.Integer("n", 1); }), ThrowsMessage<Error>(HasSubstr("here: n: got 0, expected 1 to ")));
  EXPECT_THAT(Call([&] { keys.Integer("x", 1); }),
              ThrowsMessage<Error>(HasSubstr("here: x: got -1.0, expected an integer")));
  EXPECT_THAT(Call([&] { keys.Positive("x"); }), ThrowsMessage<Error>(HasSubstr("expected a positive number")));
  EXPECT_THAT(Call([&] { keys.Flag("f", true); }), ThrowsMessage<Error>(HasSubstr("expected true or false")));
  EXPECT_THAT(Call([&] { keys.Refuse("window"); }),
              ThrowsMessage<Error>(HasSubstr("here: window: 4096 is not supported")));
  EXPECT_NO_THROW(keys.Refuse("off"));
  EXPECT_NO_THROW(keys.Refuse("one", {"1", "1.0"}));
  EXPECT_NO_THROW(keys.Refuse("absent"));
}

TEST(ConfigKeys, ListsOfStrings) {
  const nlohmann::json json = {{"types", {"a", "b"}}, {"mixed", {"a", 1}}, {"none", nullptr}};
  const ConfigKeys keys(json, "here");
  EXPECT_THAT(keys.Texts("types"), testing::ElementsAre("a", "b"));
  EXPECT_THAT(Call([&] { keys.Texts("mixed"); }),
              ThrowsMessage<Error>(HasSubstr("here: mixed: got [\"a\",1], expected a list")));
  EXPECT_TRUE(keys.IsNull("none"));
  EXPECT_FALSE(keys.IsNull("absent") || keys.IsNull("types"));
}

TEST(ConfigKeys, ListsOfIntegersOrNulls) {
  const nlohmann::json json = {{"list", {3, nullptr, 5}}, {"bad", {3, "x"}}, {"small", {1, 0}}, {"n", 3}, {"t", "x"}};
  const ConfigKeys keys(json, "here");
  EXPECT_THAT(keys.Integers("list", 1), testing::ElementsAre(std::optional(3), std::nullopt, std::optional(5)));
  EXPECT_TRUE(keys.IsList("list") && !keys.IsList("n") && keys.IsText("t") && !keys.IsText("n"));
  EXPECT_THAT(Call([&] { keys.Integers("bad", 1); }), ThrowsMessage<Error>(HasSubstr("here: bad: got \"x\"")));
  EXPECT_THAT(Call([&] { keys.Integers("small", 1); }), ThrowsMessage<Error>(HasSubstr("here: small: got 0")));
  EXPECT_THAT(Call([&] { keys.Integers("n", 1); }), ThrowsMessage<Error>(HasSubstr("expected a list of integers")));
}

TEST(ConfigKeys, ListsOfPositiveNumbers) {
  const nlohmann::json json = {{"list", {1, 2.5}}, {"bad", {1, 0}}, {"n", 3}};
  const ConfigKeys keys(json, "here");
  EXPECT_THAT(keys.Positives("list"), testing::ElementsAre(1, 2.5));
  EXPECT_THAT(Call([&] { keys.Positives("bad"); }),
              ThrowsMessage<Error>(HasSubstr("here: bad: got 0, expected a positive number")));
  EXPECT_THAT(Call([&] { keys.Positives("n"); }), ThrowsMessage<Error>(HasSubstr("expected a list of positive")));
}

}  // namespace
}  // namespace tare::config_readers_test
