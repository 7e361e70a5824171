// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/items/continuation_items.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::continuation_items_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void Refuses(const char* json, const char* why) {
  EXPECT_THAT(Call([&] { ParseContinuation(json, "f:1"); }), ThrowsMessage<Error>(HasSubstr(why))) << json;
}

TEST(ContinuationItems, AreScoredAsWritten) {
  const ChoiceItem item = ParseContinuation(R"({"context": "c ", "continuation": "x", "text": "no", "id": 4})", "f:1");
  EXPECT_THAT(item.contexts, ElementsAre("c "));
  EXPECT_THAT(item.endings, ElementsAre("x"));
  EXPECT_EQ(item.between, "");
  EXPECT_EQ(item.keys, nlohmann::ordered_json::parse(R"({"id": 4, "text": "no"})"));
}

TEST(ContinuationItems, AListSharesItsContext) {
  const ChoiceItem item = ParseContinuation(R"({"context": "c", "continuation": [" x", " y"]})", "f:1");
  EXPECT_THAT(item.contexts, ElementsAre("c"));
  EXPECT_THAT(item.endings, ElementsAre(" x", " y"));
  EXPECT_THAT(ParseContinuation(R"({"context": "c", "continuation": ["x"]})", "f:1").endings, ElementsAre("x"));
  Refuses(R"({"context": "c", "continuation": []})", "at least two");
  Refuses(R"({"context": "c", "continuation": ["a", ""]})", "got an empty one");
  Refuses(R"({"context": "c", "continuation": [1]})", "\"continuation\": got [1]");
}

TEST(ContinuationItems, LambadasLinesAndTheirLogAgree) {
  const std::vector<ChoiceItem> lines = LoadContinuations(HarnessFile("lambada_openai.jsonl")),
                                logs = LoadContinuations(HarnessFile("samples_lambada_openai.jsonl"));
  ASSERT_EQ(lines.size(), 3u);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].contexts, logs[i].contexts);
    EXPECT_EQ(lines[i].endings, logs[i].endings);
    EXPECT_EQ(lines[i].line, i + 1);
  }
  EXPECT_EQ(lines[0].endings[0], " sea\"");
  EXPECT_EQ(ParseContinuation(R"({"text": "one"})", "f:1").contexts[0], "");
  EXPECT_EQ(ParseContinuation(R"({"text": "one"})", "f:1").endings[0], " one");
}

TEST(ContinuationItems, BadLinesHaveTheirOwnMessages) {
  Refuses("[]", "expected an object with \"context\" and \"continuation\", or \"text\"");
  Refuses(R"({"context": "c", "endings": ["a", "b"], "label": 0})", "got \"endings\", expected a context and its");
  Refuses(R"({"context": "c"})", "got no \"continuation\"");
  Refuses(R"({"continuation": "c"})", "got no \"context\"");
  Refuses(R"({"context": "c", "continuation": ""})", "got an empty one");
  Refuses(R"({"text": 5})", "\"text\": got 5");
  Refuses(R"({"doc": {}, "target": "", "arguments": [["c", " a"], ["c", " b"]]})", "try choice=FILE");
  Refuses(R"({"doc": {}, "target": "", "arguments": [["text"]]})", "try documents=FILE");
}

}  // namespace
}  // namespace tare::continuation_items_test
