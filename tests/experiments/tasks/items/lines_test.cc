// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/items/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>

#include "quant/base/error.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::lines_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<size_t> NumbersOf(const std::string& text, size_t limit, TakeFrom from = TakeFrom::kStart) {
  const TemporaryFolder folder;
  PutFile(folder / "f", text);
  std::vector<size_t> numbers;
  ForEachLine(folder / "f", limit, from, [&](const JsonLine& line) {
    EXPECT_TRUE(line.where.ends_with("f: line " + std::to_string(line.number))) << line.where;
    numbers.push_back(line.number);
  });
  return numbers;
}

TEST(Lines, BlankOnesAreSkippedAndNotCounted) {
  EXPECT_THAT(NumbersOf("a\r\n\n \t \nb", 0), ElementsAre(1, 4));
  EXPECT_THAT(NumbersOf("\na\nb\n\xff\n", 2), ElementsAre(2, 3)) << "what is beyond the limit is not read";
  EXPECT_THAT(Call([] { NumbersOf("a\n\xff", 0); }), ThrowsMessage<Error>(HasSubstr("line 2: got byte 0xff")));
  EXPECT_THAT([] { NumbersOf("a\n\xc0\xa0", 0, TakeFrom::kSpread); },  // a blank, spelled in two bytes
              ThrowsMessage<Error>(HasSubstr("line 2: got byte 0xc0")));
  EXPECT_THAT(Call([] { NumbersOf("\n \n", 0); }), ThrowsMessage<Error>(HasSubstr("got no items")));
}

// One of each hundred of a thousand, blank lines aside, and not of the same kind where the file repeats ten kinds.
TEST(Lines, SpreadOverTheFile) {
  std::string text = "\n";
  for (int i = 0; i < 1000; ++i) text += "a\n";
  const std::vector<size_t> numbers = NumbersOf(text, 10, TakeFrom::kSpread);
  ASSERT_EQ(numbers.size(), 10u);
  std::set<size_t> kinds;
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ((numbers[i] - 2) / 100, i);
    kinds.insert(numbers[i] % 10);
  }
  EXPECT_GT(kinds.size(), 3u);
  EXPECT_EQ(NumbersOf(text, 10, TakeFrom::kSpread), numbers);
  EXPECT_EQ(NumbersOf(text, 2000, TakeFrom::kSpread).size(), 1000u);
  EXPECT_EQ(NumbersOf(text, 0, TakeFrom::kSpread).size(), 1000u);
}

TEST(Lines, FieldsOfWrongTypesAreNamed) {
  const nlohmann::json json = ParseObject(R"({"s": "x", "n": 1, "l": ["a", "b"], "m": ["a", 2]})", "f:1", "fields");
  EXPECT_TRUE(HasFields(json, {"s", "n"}));
  EXPECT_FALSE(HasFields(json, {"s", "t"}));
  EXPECT_EQ(StringField(json, "s", "f:1"), "x");
  EXPECT_THAT(StringsField(json, "l", "f:1"), ElementsAre("a", "b"));
  EXPECT_EQ(IndexField(json, "n", 2, "f:1"), 1);
  EXPECT_THAT(Call([&] { StringField(json, "t", "f:1"); }), ThrowsMessage<Error>(HasSubstr("f:1: got no \"t\"")));
  EXPECT_THAT(Call([&] { StringField(json, "n", "f:1"); }), ThrowsMessage<Error>(HasSubstr("\"n\": got 1")));
  EXPECT_THAT(Call([&] { StringsField(json, "m", "f:1"); }), ThrowsMessage<Error>(HasSubstr("\"m\": got 2")));
  EXPECT_THAT(Call([&] { StringsField(json, "s", "f:1"); }), ThrowsMessage<Error>(HasSubstr("at least two")));
  EXPECT_THAT(Call([&] { IndexField(json, "n", 1, "f:1"); }), ThrowsMessage<Error>(HasSubstr("expected 0 to 0")));
  EXPECT_THAT(Call([] { ParseObject("[1]", "f:1", "x"); }),
              ThrowsMessage<Error>(HasSubstr("f:1: got array, expected")));
}

TEST(Lines, KeysArePlainFieldsThatTheItemIsNotMadeOf) {
  const nlohmann::json json =
      nlohmann::json::parse(R"({"s": "x", "n": 1, "b": true, "l": [1], "z": null, "ctx": "c"})");
  EXPECT_EQ(KeysOf(json, {"ctx"}), nlohmann::ordered_json::parse(R"({"b": true, "n": 1, "s": "x"})"));
}

}  // namespace
}  // namespace tare::lines_test
