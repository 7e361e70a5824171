// SPDX-License-Identifier: Apache-2.0
// Tables from cells made by hand.
#include "experiments/sweep/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "experiments/tasks/choice.h"
#include "experiments/tasks/perplexity.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;

SweepCell Cell(const char* model, const char* task, const std::string& plan, const Json& result, const TaskKind& kind) {
  return {.model = model,
          .task = task,
          .kind = &kind,
          .row = RowOf(Plan::Parse(plan)),
          .key = Json{{"plan", plan}},
          .result = result,
          .figures = ReadFigures(result, kind).value()};
}

// Of the mean of the losses of windows of ten tokens; without windows, of a mean of 3.
SweepCell Perplexity(const char* model, const std::string& plan, double perplexity, std::vector<double> losses = {}) {
  Json result{{"nll", 3.0}, {"perplexity", perplexity}, {"tokens", 99}, {"nll_stderr", 0.5}};
  if (!losses.empty()) result.update({{"window_losses", losses}, {"window_tokens", std::vector(losses.size(), 10)}});
  return Cell(model, "perplexity:t", plan, result, kPerplexityTask);
}

SweepCell Choice(const std::string& plan, const std::string& outcomes, const std::string& outcomes_norm) {
  const auto mean = [](std::string_view text) {
    return static_cast<double>(std::ranges::count(text, '1')) / static_cast<double>(text.size());
  };
  return Cell("m", "choice:c", plan,
              {{"n", outcomes.size()},
               {"acc", mean(outcomes)},
               {"acc_stderr", 0.25},
               {"acc_norm", mean(outcomes_norm)},
               {"acc_norm_stderr", 0.125},
               {"outcomes", outcomes},
               {"outcomes_norm", outcomes_norm}},
              kChoiceTask);
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::stringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string Row(const char* plan, const char* value, const char* change = "") {
  std::string text = Formatted("  {:<28}{:<24}{}", plan, value, change);
  text.resize(text.find_last_not_of(' ') + 1);
  return text;
}

TEST(TableTest, RowsAreThePlansOfAModel) {
  const std::vector<SweepCell> cells = {Perplexity("a", "f32", 20.5), Perplexity("a", "attn_logits=int4/row", 21.75),
                                        Perplexity("b", "f32", 1000.125),
                                        Perplexity("b", "attn_logits=int4/row", 1000.125)};
  EXPECT_THAT(Lines(SweepTable(cells)),
              ElementsAre("", "perplexity:t, perplexity",                             //
                          "", "a", Row("plan", "perplexity", "change from 16 bits"),  //
                          Row("f32", "20.500"), Row("attn_logits=int4/row", "21.750", "+1.250"), "", "b",
                          Row("plan", "perplexity", "change from 16 bits"),  //
                          Row("f32", "1000.125"), Row("attn_logits=int4/row", "1000.125", "+0.000")));
}

// By d = 0.1 0.2 0.3 0.4 0.5 per token of the loss, A = 2 and B = 2.3: of perplexity, g = e^B b - e^A a about their means,
// with a the same in every window: sqrt(0.025 / 5) e^2.3.
TEST(TableTest, ChangesOfPerplexityArePairedByWindow) {
  const std::vector<SweepCell> cells = {Perplexity("a", "f32", std::exp(2), {20, 20, 20, 20, 20}),
                                        Perplexity("a", "attn_logits=int4/row", std::exp(2.3), {21, 22, 23, 24, 25})};
  const std::string change =
      Formatted("{:+.3f} +/- {:.3f}", std::exp(2.3) - std::exp(2), std::sqrt(0.005) * std::exp(2.3));
  EXPECT_EQ(Lines(SweepTable(cells)).back(), Row("attn_logits=int4/row", "9.974", change.c_str()));
  const std::vector<std::string> csv = Lines(SweepCsv(cells));
  ASSERT_EQ(csv.size(), 5u);
  const std::string error = csv[4].substr(csv[4].find(",nll,"));
  EXPECT_EQ(error.substr(0, 15), ",nll,3,0.5,,,0,");
  EXPECT_NEAR(std::stod(error.substr(15)), std::sqrt(0.005), 1e-12);
}

std::string Times(int n, const char* text) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

// Paired: of 25 items the quantized run loses ten and wins five; sum of d -5, of d^2 15: s^2 = (15 - 1) / 24, error
// sqrt(s^2 / 25) = 0.153. As if unpaired it would be sqrt(2 * 0.25^2) = 0.354.
TEST(TableTest, AccuraciesChangeByPairedDifferences) {
  const std::vector<SweepCell> cells = {Choice("f32", Times(5, "11010"), "11111"),
                                        Choice("attn_logits=int4/row", Times(5, "10001"), "11111")};
  const std::vector<std::string> lines = Lines(SweepTable(cells));
  ASSERT_EQ(lines.size(), 14u);
  EXPECT_EQ(lines[1], "choice:c, acc");
  EXPECT_EQ(lines[5], Row("f32", "0.600 +/- 0.250"));
  EXPECT_EQ(lines[6], Row("attn_logits=int4/row", "0.400 +/- 0.250", "-0.200 +/- 0.153"));
}

// No item was wrong, none changed: s = 0 is no error bar.
TEST(TableTest, FewItemsHaveIntervals) {
  const std::vector<SweepCell> cells = {Choice("f32", "11111", "11111"),
                                        Choice("attn_logits=int4/row", "11111", "11111")};
  const std::vector<std::string> lines = Lines(SweepTable(cells));
  EXPECT_EQ(lines[5], Row("f32", "1.000 [0.566, 1.000]"));
  EXPECT_EQ(lines[6], Row("attn_logits=int4/row", "1.000 [0.566, 1.000]", "+0.000 [-0.396, +0.396]"));
}

TEST(TableTest, NoChangeIsShownWithoutACellOf16Bits) {
  const std::vector<SweepCell> cells = {Perplexity("a", "attn_logits=int8/row", 3.0), Perplexity("b", "f32", 4.0)};
  EXPECT_EQ(Lines(SweepTable(cells))[5], Row("attn_logits=int8/row", "3.000"));
}

// The value stands below its plan, which is broken at commas.
TEST(TableTest, LongPlansHaveLinesOfTheirOwn) {
  const std::string rules = "q=int4/token+smooth,k=int4/token+smooth,v=int8/block64.channel+smooth";
  const std::vector<std::string> lines = Lines(SweepTable({Perplexity("a", rules + ",attn_logits=int4/tensor", 3.0)}));
  EXPECT_EQ(lines[5], "  " + rules + ",");
  EXPECT_EQ(lines[6], "  attn_logits=int4/tensor");
  EXPECT_EQ(lines[7], Row("", "3.000"));
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u);
}

TEST(TableTest, ALineSaysHowAModelWasMeasured) {
  Json result{{"nll", 3.0},   {"perplexity", 20.0}, {"tokens", 99}, {"nll_stderr", 0.5},       {"windows", 2},
              {"window", 64}, {"stride", 63},       {"bos", true},  {"cut_to_positions", true}};
  const std::vector<std::string> lines = Lines(SweepTable({Cell("a", "perplexity:t", "f32", result, kPerplexityTask)}));
  EXPECT_EQ(lines[4], "  2 windows of 64 (all of the model's positions), stride 63, each after <s>: 99 tokens scored");
}

TEST(TableTest, EachTaskHasABlockOfItsOwn) {
  const std::string text = SweepTable({Perplexity("m", "f32", 3.0), Choice("f32", "1", "0")});
  EXPECT_LT(text.find("perplexity:t, perplexity"), text.find("choice:c, acc\n"));
  EXPECT_NE(text.find("choice:c, acc_norm\n"), std::string::npos);
  EXPECT_EQ(SweepTable({}), "");
}

TEST(TableTest, CsvHasARowForEveryFigure) {
  const std::vector<SweepCell> cells = {
      Perplexity("a", "f32", 20.5), Perplexity("a", "q=int4/token,k=int4/token", 21.75), Choice("f32", "1100", "1111")};
  const std::vector<std::string> lines = Lines(SweepCsv(cells));
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[0],
            "model,task,site,format,granularity,bits,plan,executed,figure,value,stderr,low,high,change,change_stderr,"
            "change_low,change_high,n");
  EXPECT_EQ(lines[1], "a,perplexity:t,,,,16,f32,0,perplexity,20.5,,,,,,,,99");
  EXPECT_EQ(lines[2], "a,perplexity:t,,,,16,f32,0,nll,3,0.5,,,,,,,99");
  EXPECT_EQ(lines[3],
            "a,perplexity:t,\"q,k\",int4,token,4,\"q=int4/token,k=int4/token\",0,perplexity,21.75,,,,1.25,,,,99");
  EXPECT_EQ(lines[5].substr(0, 52), "m,choice:c,,,,16,f32,0,acc,0.5,0.25,0.15003898915214");
}

}  // namespace
}  // namespace tare
