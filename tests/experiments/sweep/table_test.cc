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

SweepCell Cell(const char* model, const char* granularity, const char* task, int bits, const Json& result,
               const TaskKind& kind) {
  return {model,
          granularity,
          task,
          bits,
          Json{{"plan", PlanFor({}, bits, granularity)}},
          result,
          ReadFigures(result, kind).value()};
}

SweepCell Perplexity(const char* model, const char* granularity, int bits, double perplexity) {
  return Cell(model, granularity, "perplexity:t", bits,
              {{"nll", 3.0}, {"perplexity", perplexity}, {"tokens", 99}, {"nll_stderr", 0.5}}, kPerplexityTask);
}

SweepCell Choice(const char* granularity, int bits, const char* outcomes, const char* outcomes_norm) {
  const auto mean = [](std::string_view text) {
    return static_cast<double>(std::ranges::count(text, '1')) / static_cast<double>(text.size());
  };
  return Cell("m", granularity, "choice:c", bits,
              {{"n", std::string_view(outcomes).size()},
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

std::string Row(const char* model, const char* granularity, std::vector<std::string> cells) {
  std::string text = Formatted("{:<22}{:<21}", model, granularity);
  for (const std::string& cell : cells) text += Formatted("{:<38}", cell);
  text.resize(text.find_last_not_of(' ') + 1);
  return text;
}

TEST(TableTest, PerplexityHasBitsAcrossAndTheChangeFrom16) {
  constexpr const char* kStatic = "tensor+static+p99.9";  // fits its column
  const std::vector<SweepCell> cells = {Perplexity("a", "row", 16, 20.5),     Perplexity("a", "row", 4, 21.75),
                                        Perplexity("a", kStatic, 16, 20.5),   Perplexity("a", kStatic, 4, 20.25),
                                        Perplexity("b", "row", 16, 1000.125), Perplexity("b", "row", 4, 1000.125),
                                        Perplexity("b", kStatic, 16, 7.0),    Perplexity("b", kStatic, 4, 8.0)};
  EXPECT_THAT(
      Lines(SweepTable(cells)),
      ElementsAre("", "perplexity:t, perplexity",
                  Formatted("{:<22}{:<21}{:<38}{}", "model", "scale per", "16 bits", "4 bits"),
                  Row("a", "row", {"20.500", "21.750 (+1.250)"}), Row("a", kStatic, {"20.500", "20.250 (-0.250)"}),
                  Row("b", "row", {"1000.125", "1000.125 (+0.000)"}), Row("b", kStatic, {"7.000", "8.000 (+1.000)"})));
}

// Paired: of 5 items the quantized run loses two and wins one; d = 0 -1 0 +1 -1, mean -0.2,
// s^2 = (3 - 5 * 0.04) / 4 = 0.7, error sqrt(0.7 / 5) = 0.374. As if unpaired it would be sqrt(2 * 0.25^2) = 0.354.
TEST(TableTest, AccuraciesChangeByPairedDifferences) {
  const std::vector<SweepCell> cells = {Choice("row", 16, "11010", "11111"), Choice("row", 4, "10001", "11111")};
  const std::vector<std::string> lines = Lines(SweepTable(cells));
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines[1], "choice:c, acc");
  EXPECT_EQ(lines[3], Row("m", "row", {"0.600 +/- 0.250", "0.400 +/- 0.250 (-0.200 +/- 0.374)"}));
  EXPECT_EQ(lines[5], "choice:c, acc_norm");
  EXPECT_EQ(lines[7], Row("m", "row", {"1.000 +/- 0.125", "1.000 +/- 0.125 (+0.000 +/- 0.000)"}));
}

TEST(TableTest, NoChangeIsShownWithoutACellOf16Bits) {
  const std::vector<SweepCell> cells = {Perplexity("a", "row", 8, 3.0), Perplexity("b", "row", 16, 4.0),
                                        Perplexity("a", "tensor", 16, 2.0)};
  const std::vector<std::string> lines = Lines(SweepTable(cells));
  EXPECT_EQ(lines[3], Row("a", "row", {"3.000"}));
}

TEST(TableTest, EachTaskHasABlockOfItsOwn) {
  std::vector<SweepCell> cells = {Perplexity("m", "row", 16, 3.0), Choice("row", 16, "1", "0")};
  const std::string text = SweepTable(cells);
  EXPECT_LT(text.find("perplexity:t, perplexity"), text.find("choice:c, acc\n"));
  EXPECT_NE(text.find("choice:c, acc_norm\n"), std::string::npos);
  EXPECT_EQ(SweepTable({}), "");
}

TEST(TableTest, CsvHasARowForEveryFigure) {
  const std::vector<SweepCell> cells = {Perplexity("a", "row", 16, 20.5), Perplexity("a", "row", 4, 21.75),
                                        Choice("head", 16, "1100", "1111"), Choice("head", 8, "1010", "0111")};
  // d = 0 -1 +1 0: s^2 = 2/3; and d = -1 0 0 0: s^2 = (1 - 1/4) / 3 = 1/4.
  EXPECT_THAT(
      Lines(SweepCsv(cells)),
      ElementsAre("model,task,granularity,bits,plan,figure,value,stderr,change,change_stderr,n",  //
                  "a,perplexity:t,row,16,f32,perplexity,20.5,,,,99",                              //
                  "a,perplexity:t,row,4,attn_logits=int4/row,perplexity,21.75,,1.25,,99",
                  "m,choice:c,head,16,f32,acc,0.5,0.25,,,4",      //
                  "m,choice:c,head,16,f32,acc_norm,1,0.125,,,4",  //
                  Formatted("m,choice:c,head,8,attn_logits=int8/head,acc,0.5,0.25,0,{},4", std::sqrt(2.0 / 3 / 4)),
                  "m,choice:c,head,8,attn_logits=int8/head,acc_norm,0.75,0.125,-0.25,0.25,4"));
}

}  // namespace
}  // namespace tare
