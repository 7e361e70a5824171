// SPDX-License-Identifier: Apache-2.0
// Each task's lines, read by their fields, give the requests and answers that lm-evaluation-harness logged of them
// (tests/data/harness).
#include "experiments/tasks/items/choice_forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/tasks/items/harness_log.h"
#include "experiments/tasks/items/lines.h"
#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::choice_forms_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<nlohmann::json> Logged(const std::string& task) {
  std::vector<nlohmann::json> lines;
  ForEachLine(HarnessFile("samples_" + task + ".jsonl"), 0, TakeFrom::kStart,
              [&](const JsonLine& line) { lines.push_back(nlohmann::json::parse(line.text)); });
  return lines;
}

using Requests = std::vector<std::vector<std::string>>;

Requests RequestsOf(const ChoiceItem& item) {
  Requests requests;
  for (size_t e = 0; e < item.endings.size(); ++e)
    requests.push_back({item.Context(e), item.between + item.endings[e]});
  return requests;
}

class TaskTest : public testing::TestWithParam<const char*> {};

TEST_P(TaskTest, LinesAndLogsGiveTheHarnesssRequests) {
  const std::string task = GetParam();
  const std::vector<ChoiceItem> lines = LoadChoiceItems(HarnessFile(task + ".jsonl")),
                                logs = LoadChoiceItems(HarnessFile("samples_" + task + ".jsonl"));
  const std::vector<nlohmann::json> logged = Logged(task);
  ASSERT_EQ(lines.size(), logged.size());
  ASSERT_EQ(logs.size(), logged.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const Requests expected = LoggedArguments(logged[i], "log");
    EXPECT_EQ(RequestsOf(lines[i]), expected) << task << " " << i;
    EXPECT_EQ(RequestsOf(logs[i]), expected) << task << " " << i;
    EXPECT_EQ(lines[i].endings, logs[i].endings);
    EXPECT_EQ(lines[i].label, logs[i].label) << task << " " << i;
    const auto likelihood = [&](size_t e) { return std::stod(logged[i]["filtered_resps"][e][0].get<std::string>()); };
    size_t best = 0;
    for (size_t e = 1; e < expected.size(); ++e) best = likelihood(e) > likelihood(best) ? e : best;
    EXPECT_EQ(static_cast<size_t>(lines[i].label) == best, logged[i]["acc"] == 1.0) << task << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Harness, TaskTest,
                         testing::Values("hellaswag", "arc_easy", "openbookqa", "piqa", "winogrande", "boolq", "mmlu"),
                         [](const auto& test) { return std::string(test.param); });

void Refuses(const char* json, const char* why) {
  EXPECT_THAT(Call([&] { ParseChoiceItem(json, "f:1"); }), ThrowsMessage<Error>(HasSubstr(why))) << json;
}

TEST(ChoiceForms, FieldsOfNoForm) {
  Refuses(R"({"prompt": "a", "targets": ["b"]})", "question); try generate=FILE");
  Refuses(R"({"prompt": "a", "answer": 1})", "got the fields answer prompt, expected those of an item: ");
  Refuses(R"({"prompt": "a"})", "piqa (goal sol1 sol2), winogrande (sentence option1 option2 answer)");
}

TEST(ChoiceForms, LinesWithoutTheirAnswer) {
  Refuses(R"({"question": "q", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": ""})",
          "\"answerKey\": got \"\", expected one of the labels [\"A\",\"B\"]");
  Refuses(R"({"question": "q", "choices": {"text": ["a", "b"], "label": ["A", "B", "C"]}, "answerKey": "A"})",
          "one per text");
  Refuses(R"({"question": "q", "choices": ["a"], "answerKey": "A"})", "\"choices\": got [\"a\"], expected text and");
  Refuses(R"({"goal": "g", "sol1": "a", "sol2": "b", "label": -1})", "\"label\": got -1, expected 0 to 1");
  Refuses(R"({"sentence": "a _ b", "option1": "x", "option2": "y", "answer": ""})", "got '', expected 1 or 2");
  Refuses(R"({"sentence": "a b", "option1": "x", "option2": "y", "answer": "1"})", "expected a _ for the option");
  Refuses(R"({"passage": "p", "question": "q"})", "got no \"label\"");
  Refuses(R"({"question": "q", "subject": "s", "choices": ["a", "b", "c"], "answer": 1})", "got 3, expected four");
  Refuses(R"({"question": "q", "subject": "s", "choices": ["a", "b", "c", "d"], "answer": 4})", "expected 0 to 3");
}

TEST(ChoiceForms, BoolqsOwnAnswers) {
  EXPECT_EQ(ParseChoiceItem(R"({"passage": "p", "question": "q", "answer": true})", "f:1").label, 1);
  EXPECT_EQ(ParseChoiceItem(R"({"passage": "p", "question": "q", "answer": false})", "f:1").label, 0);
}

}  // namespace
}  // namespace tare::choice_forms_test
