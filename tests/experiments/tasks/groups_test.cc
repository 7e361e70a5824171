// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/table/table.h"
#include "experiments/tasks/choice.h"
#include "quant/base/message.h"
#include "tests/support/call.h"

namespace tare::groups_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Samples, AreCountedInTheOrderInWhichTheyCome) {
  const auto of = [](const Json& sample) { return Json{{"line", 1}, {"item", {{"sample", sample}}}}; };
  const std::vector<Json> records{of(7),   of("a"), Json{{"line", 3}}, of(7), Json{{"item", {{"depth", 1}}}},
                                  of("a"), of(7)};
  const size_t items[] = {0, 1, 2, 3, 4, 5};
  const WindowLosses samples = BySample(records, ScoresOf("1101000"), items);
  EXPECT_THAT(samples.sums, ElementsAre(2, 1, 0, 0));
  EXPECT_THAT(samples.counts, ElementsAre(2, 2, 1, 1)) << "items without the key are samples by themselves";
}

// An item is right where its answer is 0.
TaskResult Result(const std::vector<std::pair<Json, bool>>& items) {
  std::vector<ChoiceItem> choices;
  EndingScores scores;
  for (const auto& [keys, right] : items) {
    choices.push_back({.keys = keys, .line = choices.size() + 1});
    scores.push_back({{right ? -1.0 : -3.0, 1}, {-2.0, 9}});  // by characters the second
  }
  return Accuracies(choices, scores);
}

Json Item(double depth, const Json& length) { return {{"depth", depth}, {"length", length}}; }

TEST(BreakDown, CountsEachGroup) {
  const TaskResult result = Result({{Item(0.5, 128), true},
                                    {Item(0, 64), true},
                                    {Item(0.5, 128), false},
                                    {Item(0.5, 128), true},
                                    {Item(0, 1024), false}});
  const Breakdown breakdown{.by = {"depth", "length"}, .over = ""};
  const Json all = BreakDown("choice:t", result, kChoiceTask, breakdown);
  EXPECT_FALSE(all.contains("spread"));
  ASSERT_EQ(all["by"].size(), 3u);
  EXPECT_EQ(all["by"][0]["length"], 64);
  EXPECT_EQ(all["by"][1]["length"], 1024) << "by number, not by text";
  const Json& group = all["by"][2];
  EXPECT_EQ(group["depth"], 0.5);
  EXPECT_EQ(group["n"], 3);
  EXPECT_DOUBLE_EQ(group["acc"], 2.0 / 3);
  const Interval wilson = WilsonInterval(2, 3);
  EXPECT_EQ(group["acc_low"], wilson.low);
  EXPECT_EQ(group["acc_high"], wilson.high);
  EXPECT_EQ(group["acc_norm"], 0);
  EXPECT_EQ(BreakdownTable(all, kChoiceTask, breakdown),
            "acc with 95 % intervals, 1 to 3 items each\n"
            "depth          length 64         length 128        length 1024\n"
            "0.0    1.00 [0.21, 1.00]                     0.00 [0.00, 0.79]\n"
            "0.5                       0.67 [0.21, 0.94]\n");
  EXPECT_THAT(
      TableCsv(TableOf(BreakdownRows("choice:t", all))),
      testing::StartsWith("task,depth,length,n,acc,acc_low,acc_high,acc_norm,acc_norm_low,acc_norm_high,samples\n"
                          "choice:t,0,64,1,1,"));
}

// Columns that do not fit 80 are rows.
TEST(BreakDown, ManyGroupsAreAList) {
  const Breakdown breakdown{.by = {"depth", "length"}, .over = ""};
  const TaskResult result = Result(
      {{Item(0, 64), true}, {Item(0, 128), true}, {Item(0, 256), true}, {Item(0, 512), true}, {Item(0, 1024), false}});
  const std::string table =
      BreakdownTable(BreakDown("choice:t", result, kChoiceTask, breakdown), kChoiceTask, breakdown);
  EXPECT_THAT(table, testing::StartsWith("acc with 95 % intervals, 1 item each\n"
                                         "depth  length                acc\n"
                                         "0.0    64      1.00 [0.21, 1.00]\n"));
  EXPECT_THAT(table, testing::EndsWith("\n0.0    1024    0.00 [0.00, 0.79]\n"));
}

// Two samples of three items each, all right or all wrong: only two outcomes are independent.
TEST(BreakDown, ItemsOfASampleAreNotIndependent) {
  std::vector<std::pair<Json, bool>> items;
  for (int i = 0; i < 6; ++i) items.push_back({{{"shots", 4}, {"seed", i % 3}, {"sample", i / 3}}, i < 3});
  const TaskResult result = Result(items);
  EXPECT_EQ(result.figures["sample_items"], (Json{3.0, 3.0}));
  EXPECT_EQ(result.figures["sample_right"], (Json{3.0, 0.0}));
  const Breakdown breakdown{.by = {"shots"}, .over = ""};
  const Json all = BreakDown("t", result, kChoiceTask, breakdown), &group = all["by"][0];
  const Interval interval = ClusteredInterval({3, 0}, {3, 3});
  EXPECT_EQ(group["samples"], 2);
  EXPECT_EQ(group["acc_low"], interval.low);
  EXPECT_EQ(group["acc_high"], interval.high);
  EXPECT_THAT(BreakdownTable(all, kChoiceTask, breakdown),
              HasSubstr("acc with 95 % intervals over samples, 6 items of 2 samples each\n"));
  EXPECT_THAT(TableCsv(TableOf(BreakdownRows("t", all))), HasSubstr(",2\n"));
  EXPECT_EQ(ReadFigures(result.figures, kChoiceTask)->list[0].OfItems()->low, interval.low);
  EXPECT_FALSE(Result({{{{"sample", 0}}, true}, {{{"sample", 1}}, true}}).figures.contains("sample_items"));
}

TEST(BreakDown, OneKeyIsAColumn) {
  const TaskResult result = Result({{{{"of", "b"}}, true}, {{{"of", "a"}}, false}});
  const Breakdown breakdown{.by = {"of"}, .over = ""};
  EXPECT_EQ(BreakdownTable(BreakDown("t", result, kChoiceTask, breakdown), kChoiceTask, breakdown),
            "acc with 95 % intervals, 1 item each\n"
            "of                acc\n"
            "a   0.00 [0.00, 0.79]\n"
            "b   1.00 [0.21, 1.00]\n");
}

TEST(BreakDown, WhatItemsLackIsRefused) {
  const auto by = [](const std::vector<std::string>& keys, const std::string& over) {
    BreakDown("choice:t", Result({{Item(0, 64), true}, {{{"depth", 1}}, true}}), kChoiceTask, {keys, over});
  };
  EXPECT_THAT(
      Call([&] { by({"depth", "length"}, ""); }),
      ThrowsMessage<Error>("choice:t: line 2: got an item without \"length\", expected one of its keys: depth"));
  EXPECT_THAT(Call([&] { by({"depth"}, "seed"); }), ThrowsMessage<Error>(HasSubstr("without \"seed\"")));
  EXPECT_THAT(Call([&] { BreakDown("zero", TaskResult(), kChoiceTask, {{"depth"}, ""}); }),
              ThrowsMessage<Error>(HasSubstr("zero: got no records")));
}

// 12 samples under 3 orders. Samples 0 to 7 differ by order: right of them 7, 4, 1; the others are always right.
TEST(BreakDown, SpreadsOverAKey) {
  const std::vector<std::string> outcomes{"111111101111", "111100001111", "100000001111"};
  std::vector<std::pair<Json, bool>> items;
  for (size_t sample = 12; sample-- > 0;) {  // whatever their order
    for (size_t seed = 0; seed < 3; ++seed)
      items.push_back({{{"shots", 4}, {"seed", seed}, {"sample", sample}}, outcomes[seed][sample] == '1'});
  }
  const Breakdown breakdown{.by = {"shots"}, .over = "seed"};
  const Json all = BreakDown("t", Result(items), kChoiceTask, breakdown), spread = all["spread"][0];
  EXPECT_EQ(spread["shots"], 4);
  EXPECT_EQ(spread["seeds"], 3);
  EXPECT_EQ(spread["n"], 12);
  EXPECT_DOUBLE_EQ(spread["acc_best"], 11.0 / 12);
  EXPECT_DOUBLE_EQ(spread["acc_worst"], 5.0 / 12);
  EXPECT_DOUBLE_EQ(spread["acc_sd"], 3.0 / 12);
  // Row sums of the first eight are 3, 2, 2, 2, 1, 1, 1, 0: six change, 18 outcomes: too few for a p.
  EXPECT_TRUE(spread["acc_p"].is_null());
  EXPECT_THAT(BreakdownTable(all, kChoiceTask, breakdown),
              HasSubstr("shots  seeds  best  worst  margin     sd        p\n4          3  0.92   0.42    0.50  0.250  "
                        "too few\n"));
  // Another sample that one order lacks: nothing is paired.
  items.pop_back();
  EXPECT_TRUE(BreakDown("t", Result(items), kChoiceTask, breakdown)["spread"][0]["acc_p"].is_null());
}

TEST(CochranP, FollowsTheDefinition) {
  const std::vector<std::string> outcomes{"1111111101", "1111100001", "0000000111"};
  // L: 2 2 2 2 2 1 1 2 1 3, so that nine samples change, 27 outcomes, and sum L (3 - L) is 18. G: 9, 6, 3 of N 18:
  // Q = 3 * 2 * (9 + 0 + 9) / 18 = 6, and of two degrees p is exp(-Q / 2).
  const std::optional<double> p = CochranP(outcomes);
  ASSERT_TRUE(p.has_value());
  EXPECT_NEAR(*p, std::exp(-3.0), 1e-12);
  EXPECT_EQ(CochranP({"1111", "1111"}), std::nullopt);
  EXPECT_EQ(CochranP({"10"}), std::nullopt);
}

}  // namespace

}  // namespace tare::groups_test
