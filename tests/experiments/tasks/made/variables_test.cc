// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/makers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>

#include "experiments/tasks/items/lines.h"
#include "quant/base/message.h"
#include "quant/file/sha256.h"
#include "tests/experiments/tasks/made/prose.h"
#include "tests/support/call.h"

namespace tare::variables_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<Json> Make(const VariableQuestion& question) { return MakeVariables(question, Prose(), ProseTokenizer()); }

// Runs the text's assignments from its beginning to its end; a variable that has no value yet would be empty.
std::map<std::string, std::string> ValuesIn(const std::string& context) {
  std::map<std::string, std::string> values;
  for (size_t at = context.find("VAR "); at != context.npos; at = context.find("VAR ", at + 1)) {
    if (context.substr(at + 9, 3) != " = ") continue;
    const std::string from = context.substr(at + 12, context.find('.', at) - at - 12);
    values[context.substr(at + 4, 5)] = from.starts_with("VAR ") ? values[from.substr(4)] : from;
  }
  return values;
}

TEST(MakeVariables, TheAnswerIsTheValueOfTheVariable) {
  const std::vector<Json> items = Make({.grid = {.lengths = {400}, .samples = 3}, .chains = 3, .hops = 2});
  ASSERT_EQ(items.size(), 15u);
  for (const Json& item : items) {
    const std::string context = item["ctx"], name = context.substr(context.rfind("VAR ") + 4, 5);
    ASSERT_EQ(item["endings"].size(), 3u);
    const auto values = ValuesIn(context);
    EXPECT_EQ(values.size(), 9u);
    EXPECT_EQ(item["endings"][item["label"].get<size_t>()], values.at(name));
    EXPECT_LE(PositionsOf(context, item["endings"], ProseTokenizer()), 400u);
    const std::string first = " = " + values.at(name) + ".";
    const double place = static_cast<double>(context.find(first)) / static_cast<double>(context.rfind("\n "));
    EXPECT_NEAR(place, item["depth"].get<double>(), 0.35) << "nine assignments take a part of the text";
    ParseChoiceItem(JsonText(item), "made");
  }
}

TEST(MakeVariables, TargetsListTheChain) {
  for (const Json& item :
       Make({.grid = {.lengths = {300}, .samples = 1, .answers = AnswerForm::kTargets}, .chains = 1, .hops = 4})) {
    const std::string prompt = item["prompt"];
    const size_t value = prompt.rfind("the value ") + 10;
    std::vector<std::string> names;
    for (const auto& [name, of] : ValuesIn(prompt)) {
      if (of == prompt.substr(value, 5)) names.push_back(name);
    }
    ASSERT_EQ(names.size(), 5u);
    std::vector<std::string> targets = item["targets"];
    EXPECT_EQ(ValuesIn(prompt.substr(0, prompt.find(targets[0]) + 14)).at(targets[0]), prompt.substr(value, 5));
    EXPECT_TRUE(std::ranges::is_permutation(targets, names)) << item;
    EXPECT_EQ(item["score"], "all");
  }
}

TEST(MakeVariables, EqualSeedsMakeEqualItems) {
  std::string lines;
  for (const Json& item : Make({.grid = {.lengths = {300}, .samples = 1}})) lines += JsonText(item) + "\n";
  EXPECT_EQ(Sha256Hex(std::as_bytes(std::span(lines))),
            "4d633c4155a23bbe930925cffac955740c3bac3a6d60d2924ea40f6b45dcd732");
}

TEST(MakeVariables, ImpossibleItemsAreRefused) {
  const auto refused = [](const VariableQuestion& question, const char* why) {
    EXPECT_THAT(Call([&] { Make(question); }), ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused({.chains = 1}, "chains: got 1, expected at least 2");
  refused({.chains = 1000, .hops = 10}, "hops: got 10 in 1000 chains, expected at most 10000 assignments");
  refused({.grid = {.depths = {2}}}, "depths: got 2, expected 0 to 1");
  refused({.grid = {.lengths = {60}}}, "variables: got a length of 60, expected at least");
}

}  // namespace
}  // namespace tare::variables_test
