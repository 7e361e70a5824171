// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/arithmetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>
#include <sstream>

#include "experiments/tasks/items/choice_items.h"
#include "quant/base/error.h"
#include "quant/file/sha256.h"
#include "tests/support/call.h"

namespace tare::arithmetic_test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::ThrowsMessage;

std::vector<std::string> LinesIn(const std::string& context) {
  std::vector<std::string> lines;
  std::istringstream stream(context);
  for (std::string line; std::getline(stream, line);) lines.push_back(line.starts_with(" ") ? line.substr(1) : line);
  return lines;
}

int64_t SumOf(const std::string& asked) {
  std::istringstream stream(asked);
  int64_t a = 0, b = 0;
  char plus = 0;
  stream >> a >> plus >> b;
  return a + b;
}

TEST(MakeSums, TheAnswerIsTheSum) {
  const std::vector<Json> items = MakeSums({.digits = {2, 5}, .shots = 3, .samples = 20});
  ASSERT_EQ(items.size(), 40u);
  std::map<size_t, int> ranks;
  for (const Json& item : items) {
    const std::vector<std::string> lines = LinesIn(item["ctx"]);
    ASSERT_EQ(lines.size(), 4u);
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(lines[i].ends_with(std::to_string(SumOf(lines[i])) + ".")) << lines[i];
    const std::string answer = std::to_string(SumOf(lines[3]));
    EXPECT_EQ(item["endings"][item["label"].get<size_t>()], answer);
    std::vector<int64_t> numbers;
    for (const std::string ending : item["endings"]) numbers.push_back(std::stoll(ending));
    std::ranges::sort(numbers);
    EXPECT_EQ(numbers[3] - numbers[2], numbers[1] - numbers[0]);
    EXPECT_EQ(numbers[2] - numbers[1], numbers[1] - numbers[0]);
    ++ranks[static_cast<size_t>(std::ranges::find(numbers, std::stoll(answer)) - numbers.begin())];
    ParseChoiceItem(JsonText(item), "made");
  }
  EXPECT_EQ(ranks, (std::map<size_t, int>{{0, 10}, {1, 10}, {2, 10}, {3, 10}})) << "from the smallest";
}

// "47 + 85: 7 + 5 = 12, 1 + 4 + 8 = 13, total 132."
TEST(MakeSums, TargetsHaveWorkedExamples) {
  for (const Json& item : MakeSums({.digits = {3}, .shots = 2, .samples = 10, .answers = AnswerForm::kTargets})) {
    const std::vector<std::string> lines = LinesIn(item["prompt"]);
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_TRUE(lines[2].ends_with(":"));
    EXPECT_EQ(item["targets"], Json::array({std::to_string(SumOf(lines[2]))}));
    for (size_t i = 0; i < 2; ++i) {
      const std::string& line = lines[i];
      const int64_t total = SumOf(line);
      int64_t worked = 0, power = 1, carry = 0;
      size_t at = line.find(": ");
      for (int digit = 0; digit < 3; ++digit, power *= 10) {
        std::istringstream step(line.substr(at + 2, line.find(',', at + 1) - at - 2));
        int64_t sum = 0, said = 0;
        for (std::string word; step >> word && word != "=";) sum += word == "+" ? 0 : std::stoll(word);
        step >> said;
        EXPECT_EQ(sum, said) << line;
        worked += said % 10 * power;
        carry = said / 10;
        at = line.find(',', at + 1);
      }
      EXPECT_EQ(worked + carry * power, total) << line;
      EXPECT_TRUE(line.ends_with("total " + std::to_string(total) + ".")) << line;
    }
  }
}

// Follows the sentences from the first number to the last.
int64_t EndOf(const std::string& story) {
  std::istringstream stream(story);
  std::string who, word;
  int64_t now = 0;
  stream >> who >> word >> now;
  while (stream >> word && word != "How") {
    int64_t by = 0;
    if (word == "finds" && stream >> by) now += by;
    if (word == "gives" && stream >> by) now -= by;
    if (word == "Then") now *= 2;
  }
  return now;
}

TEST(MakeStories, TheAnswerFollowsFromTheSteps) {
  const std::vector<Json> items = MakeStories({.steps = {1, 4}, .shots = 2, .samples = 20});
  ASSERT_EQ(items.size(), 40u);
  for (const Json& item : items) {
    const std::vector<std::string> lines = LinesIn(item["ctx"]);
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(std::ranges::count(lines[2], '.'), 1 + item["steps"].get<int64_t>()) << "sentences";
    EXPECT_EQ(item["endings"][item["label"].get<size_t>()], std::to_string(EndOf(lines[2]))) << lines[2];
    EXPECT_TRUE(lines[0].ends_with(" has " + std::to_string(EndOf(lines[0])) + ".")) << lines[0];
    for (const std::string ending : item["endings"]) {
      EXPECT_FALSE(item["ctx"].get<std::string>().contains(" " + ending + " ")) << item;
    }
    ParseChoiceItem(JsonText(item), "made");
  }
}

TEST(MakeStories, TargetsHaveWorkedExamples) {
  for (const Json& item : MakeStories({.steps = {2}, .shots = 2, .samples = 10, .answers = AnswerForm::kTargets})) {
    const std::vector<std::string> lines = LinesIn(item["prompt"]);
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_THAT(lines[0], MatchesRegex(".* now. [0-9]+ [-+] [0-9]+ = [0-9]+, [0-9]+ [-+] [0-9]+ = [0-9]+, so .*"));
    EXPECT_TRUE(lines[0].ends_with(std::to_string(EndOf(lines[0])) + ".")) << lines[0];
    EXPECT_TRUE(lines[2].ends_with(" now?")) << lines[2];
    EXPECT_EQ(item["targets"], Json::array({std::to_string(EndOf(lines[2]))}));
    EXPECT_EQ(item["stop"], Json::array({"\n"}));
    EXPECT_EQ(item["score"], "number");
  }
}

TEST(MakeArithmetic, EqualSeedsMakeEqualItems) {
  std::string lines;
  for (const Json& item : MakeSums({.samples = 2})) lines += JsonText(item) + "\n";
  for (const Json& item : MakeStories({.samples = 2})) lines += JsonText(item) + "\n";
  EXPECT_EQ(Sha256Hex(std::as_bytes(std::span(lines))),
            "0a2e9d698bad0769ee8a80bc36df641caa2122e558cea493322e0037b22e33a2");
}

TEST(MakeArithmetic, ImpossibleItemsAreRefused) {
  EXPECT_THAT(Call([] { MakeSums({.digits = {1}}); }),
              ThrowsMessage<Error>(HasSubstr("digits: got 1, expected 2 to 15")));
  EXPECT_THAT(Call([] { MakeStories({.steps = {9}}); }),
              ThrowsMessage<Error>(HasSubstr("steps: got 9, expected 1 to 8")));
  EXPECT_THAT(Call([] { MakeSums({.digits = {2}, .shots = 120}); }),
              ThrowsMessage<Error>(HasSubstr("shots: got 120, expected fewer: the answers would stand among them")));
}

}  // namespace
}  // namespace tare::arithmetic_test
