// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/items/document_items.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/text/utf8.h"
#include "quant/base/error.h"
#include "quant/file/strict_json.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::document_items_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(DocumentItems, PagesAreDetokenizedAndCountedAsTheHarness) {
  for (const auto& sample : ReadJson(HarnessFile("detokenized.json"))) {
    const auto page = sample[0].get<std::string>();
    EXPECT_EQ(DetokenizeWikitext(page), sample[1].get<std::string>()) << page;
    EXPECT_EQ(CountWords(page), sample[2].get<size_t>()) << page;
  }
}

TEST(DocumentItems, WikitextsLinesAndTheirLogAgree) {
  const std::vector<TextDocument> lines = LoadDocuments(HarnessFile("wikitext.jsonl")),
                                  logs = LoadDocuments(HarnessFile("samples_wikitext.jsonl"));
  ASSERT_EQ(lines.size(), 2u);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].text, logs[i].text);
    EXPECT_EQ(lines[i].words, logs[i].words);
    EXPECT_EQ(lines[i].bytes, logs[i].bytes);
    EXPECT_EQ(lines[i].line, i + 1);
  }
  EXPECT_LT(lines[0].text.size(), lines[0].bytes) << "bytes are the page's";
}

TEST(DocumentItems, TextsAreTakenAsWritten) {
  const TextDocument document = ParseDocument(R"x({"text": " a  b ( c )"})x", "f:1");
  EXPECT_EQ(document.text, " a  b ( c )");
  EXPECT_EQ(document.words, 6u) << "the empty one in front counts, as in the harness";
  EXPECT_EQ(document.bytes, 11u);
}

TEST(DocumentItems, BadLinesHaveTheirOwnMessages) {
  const auto refuses = [](const char* json, const char* why) {
    EXPECT_THAT(Call([&] { ParseDocument(json, "f:1"); }), ThrowsMessage<Error>(HasSubstr(why))) << json;
  };
  refuses("5", "expected an object with \"page\" or \"text\"");
  refuses("{}", "got no \"text\"");
  refuses(R"({"page": 1})", "\"page\": got 1");
  refuses(R"({"text": " \n"})", "empty document");
  refuses(R"({"doc": {}, "target": "", "arguments": [["c", " a"]]})", "expected one text; try loglikelihood=FILE");
  refuses(R"({"doc": {}, "target": "", "arguments": [["c", " a"], ["c", " b"]]})", "try choice=FILE");
}

}  // namespace
}  // namespace tare::document_items_test
