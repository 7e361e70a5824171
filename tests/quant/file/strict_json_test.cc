// SPDX-License-Identifier: Apache-2.0
#include "quant/file/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::strict_json_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string Nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(StrictJson, ReadsWhatIsSane) {
  const nlohmann::json json = ParseJson(R"( {"a": [1, {"a": 2}, {"a": 3}], "b": "\u0000x"} )", "here");
  EXPECT_EQ(json["a"][2]["a"], 3);
  EXPECT_EQ(json["b"], std::string("\0x", 2));
  EXPECT_EQ(ParseJson("[]", "here"), nlohmann::json::array());
}

TEST(StrictJson, RefusesTheSameKeyTwice) {
  EXPECT_THAT(Call([] { ParseJson(R"({"a": {"k": 1, "j": 2, "k": 3}})", "here"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("here: "), HasSubstr("'k' twice"))));
  EXPECT_THAT(Call([] { ParseJson(R"({"k": {"k": 1}, "\u006b": 3})", "here"); }),
              ThrowsMessage<Error>(HasSubstr("'k' twice")));
}

TEST(StrictJson, RefusesDepth) {
  EXPECT_NO_THROW(ParseJson(Nested(32), "here"));
  EXPECT_THAT(Call([] { ParseJson(Nested(33), "here"); }), ThrowsMessage<Error>(HasSubstr("nested 32 deep")));
  EXPECT_THAT(Call([] { ParseJson(std::string(10'000'000, '['), "here"); }),
              ThrowsMessage<Error>(HasSubstr("nested 32 deep")));
  EXPECT_THROW(ParseJson(R"({"a":)" + Nested(32) + "}", "here"), Error);
}

TEST(StrictJson, RefusesWhatIsNotJson) {
  for (const std::string text : {"", "{", "{\"a\"", "{} x", "nan", "{\"a\": 01}", "\"\xff\"", "[1,]"}) {
    EXPECT_THAT(Call([&] { ParseJson(text, "here"); }), ThrowsMessage<Error>(HasSubstr("here: not valid JSON: ")))
        << text;
  }
  EXPECT_THAT(Call([] { ParseJson(std::string("{}\0{", 4), "here"); }), ThrowsMessage<Error>(HasSubstr("NUL")));
}

// Comparing each with all before it took sixteen times as long for four times as many.
TEST(StrictJson, ManyKeysInOrderTakeNLogN) {
  const auto seconds = [](int keys) {
    std::string text = "{";
    for (int i = keys; i > 0; --i) text += Formatted("\"k{}\":[{{\"a\":{}}}],", i, i);
    const std::clock_t start = std::clock();
    const nlohmann::ordered_json json = ParseOrderedJson(text + "\"last\":0}", "here");
    const std::clock_t end = std::clock();
    EXPECT_EQ(json.begin().key(), Formatted("k{}", keys));
    EXPECT_EQ(std::prev(json.end(), 2).value()[0]["a"], 1);
    EXPECT_THAT(Call([&] { ParseOrderedJson(text + "\"k7\":0}", "here"); }),
                ThrowsMessage<Error>(HasSubstr("'k7' twice")));
    return static_cast<double>(end - start) / CLOCKS_PER_SEC;
  };
  EXPECT_LT(seconds(20'000), 9 * seconds(5'000) + 0.05);
}

TEST(StrictJson, ReadsFiles) {
  const TemporaryFolder folder;
  PutFile(folder / "a.json", "[1]");
  PutFile(folder / "b.json", "[1");
  EXPECT_EQ(ReadJson(folder / "a.json")[0], 1);
  EXPECT_THAT(Call([&] { ReadJson(folder / "b.json"); }), ThrowsMessage<Error>(HasSubstr("b.json: not valid JSON")));
  EXPECT_THAT(Call([&] { ReadJson(folder / "c.json"); }), ThrowsMessage<Error>(HasSubstr("no such file")));
}

}  // namespace
}  // namespace tare::strict_json_test
