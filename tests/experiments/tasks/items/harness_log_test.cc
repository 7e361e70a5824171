// SPDX-License-Identifier: Apache-2.0
// Logged lines of the harness itself are read in choice_forms_test.cc; these are what it might log.
#include "experiments/tasks/items/harness_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "quant/base/error.h"
#include "tests/support/call.h"

namespace tare::harness_log_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// A line with requests as lists, as older versions of the harness logged them.
nlohmann::json Line(const std::vector<std::vector<std::string>>& arguments, const nlohmann::json& target,
                    const std::vector<double>& likelihoods = {}, std::optional<double> acc = std::nullopt) {
  nlohmann::json line{{"doc_id", 3}, {"doc", {{"id", "x"}, {"n", 2}}}, {"target", target}, {"arguments", arguments}};
  for (const double likelihood : likelihoods) line["filtered_resps"].push_back({likelihood, false});
  if (acc) line["acc"] = *acc;
  return line;
}

ChoiceItem Item(const nlohmann::json& line) { return ParseChoiceItem(line.dump(), "f:1"); }
void Refuses(const nlohmann::json& line, const char* why) {
  EXPECT_THAT(Call([&] { Item(line); }), ThrowsMessage<Error>(HasSubstr(why))) << line;
}

TEST(HarnessLog, ContinuationsAreWrittenAsTheyWereScored) {
  const ChoiceItem spaced = Item(Line({{"c", " a"}, {"c", "  b"}}, "1"));
  EXPECT_EQ(spaced.between, " ");
  EXPECT_THAT(spaced.endings, ElementsAre("a", " b"));
  EXPECT_THAT(spaced.contexts, ElementsAre("c"));
  EXPECT_EQ(spaced.label, 1);
  EXPECT_EQ(spaced.keys, nlohmann::ordered_json::parse(R"({"doc_id": 3, "id": "x", "n": 2})"));
  const ChoiceItem bare = Item(Line({{"c", "a"}, {"c", " b"}}, 0));
  EXPECT_EQ(bare.between, "");
  EXPECT_THAT(bare.endings, ElementsAre("a", " b"));
}

TEST(HarnessLog, TheTargetIsAnIndexOrAnEnding) {
  EXPECT_EQ(Item(Line({{"c", " yes"}, {"c", " no"}}, "no")).label, 1);
  EXPECT_EQ(Item(Line({{"c", " B"}, {"c", " A"}}, " A")).label, 1);
  // Endings that are numbers: what was logged decides.
  Refuses(Line({{"c", " 1"}, {"c", " 0"}}, "1"), "\"target\": got \"1\", which may be several");
  EXPECT_EQ(Item(Line({{"c", " 1"}, {"c", " 0"}}, "1", {-1, -2}, 1.0)).label, 0);
  EXPECT_EQ(Item(Line({{"c", " 1"}, {"c", " 0"}}, "1", {-1, -2}, 0.0)).label, 1);
  Refuses(Line({{"c", " a"}, {"c", " b"}}, "0", {-1, -2}, 0.0), "is none, or not what \"acc\" says");
  Refuses(Line({{"c", " a"}, {"c", " b"}}, "2"), "which is none");
  Refuses(Line({{"c", " a"}, {"c", " b"}}, "[0, 1]"), "which is none");
}

TEST(HarnessLog, OfSeveralContextsTheAnswerTells) {
  const std::vector<std::vector<std::string>> requests{{"a", " end"}, {"b", " end"}};
  EXPECT_EQ(Item(Line(requests, "end", {-5, -2}, 1.0)).label, 1);
  EXPECT_EQ(Item(Line(requests, "end", {-5, -2}, 0.0)).label, 0);
  EXPECT_THAT(Item(Line(requests, "end", {-5, -2}, 0.0)).contexts, ElementsAre("a", "b"));
  Refuses(Line(requests, "end"), "may be several of them, expected one of the 2 endings");
  Refuses(Line({{"a", " end"}, {"b", " end"}, {"d", " end"}}, "end", {-5, -2, -3}, 0.0), "may be several");
}

TEST(HarnessLog, RequestsOfMutualInformationAreLeftOut) {
  const ChoiceItem item = Item(Line({{"c", " a"}, {"c", " b"}, {"", " a"}, {"", " b"}}, "0", {-1, -2, -3, -4}, 1.0));
  EXPECT_THAT(item.contexts, ElementsAre("c"));
  EXPECT_THAT(item.endings, ElementsAre("a", "b"));
}

TEST(HarnessLog, OtherTasksAreNamed) {
  Refuses(Line({{"c", " a"}}, ""), "expected several of a context and a continuation; try loglikelihood=FILE");
  Refuses(Line({{"text"}}, ""), "try documents=FILE");
  Refuses(Line({{"c", " a"}, {"text"}}, "0"), "got 1 in request 2");
  Refuses(Line({}, "0"), "got no request");
  nlohmann::json generates = Line({}, "0");
  generates["arguments"] = {{"gen_args_0", {{"arg_0", "c"}, {"arg_1", {{"until", {"\n"}}}}}}};
  Refuses(generates, "a task that generates answers is generate=FILE");
  generates["arguments"] = 5;
  Refuses(generates, "got no request");
}

}  // namespace
}  // namespace tare::harness_log_test
